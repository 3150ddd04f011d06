"""`perdure job`: what people and scripts see of jobs and their types."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner
from perdure import Client
from perdure.cli.main import cli
from perdure_testkit.calls import Calls
from perdure_testkit.command_line import Command


async def test_a_type_is_made_and_shown_with_all_that_it_says(
    perdure: Command, tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    what = ("--handler", "report.make", "--schema", "@schema.json", "--timeout", "90")
    rule = ("--retry-max", "3", "--retry-base", "0.5")
    made = await perdure("job", "type", "put", "report", *what, *rule)
    assert (made.status, made.out) == (0, "report v1\n")
    shown = await perdure("job", "type", "show", "report")
    for text in ("report.make", '{"type": "object"}', "1 min 30 s", "3 times, from 500 ms"):
        assert text in shown.out
    listed = await perdure("job", "type", "list", "--json")
    assert [one["name"] for one in listed.json()] == ["mail", "note", "report"]


async def test_a_job_is_enqueued_got_and_listed_and_its_error_is_seen(
    perdure: Command, calls: Calls
) -> None:
    options = ("--payload", '{"to": "ann", "n": 18446744073709551616}', "--key", "k")
    made = await perdure("job", "enqueue", "mail", *options)
    job_id = made.out.strip()
    again = await perdure("job", "enqueue", "mail", *options)
    assert (again.out.strip(), again.err) == (
        job_id,
        "an earlier request under this key enqueued it\n",
    )
    grant = await calls.grant(UUID(job_id))
    await calls.fail(grant.lease, "permanent")

    got = await perdure("job", "get", job_id)
    for text in ("mail v1", "failed", "BROKEN: broken", "key k", "worker-1"):
        assert text in got.out
    as_json = await perdure("job", "get", job_id, "--json")
    assert '"n": 18446744073709551616' in as_json.out
    assert as_json.json()["last_error"]["code"] == "BROKEN"
    assert as_json.json()["status"] == "failed"
    listed = await perdure("job", "list", "--status", "failed", "--type", "mail", "--json")
    assert [one["job_id"] for one in listed.json()] == [job_id]
    dead = await perdure("job", "dead")
    assert job_id in dead.out
    assert "permanent" in dead.out
    run = await perdure("run", "show", job_id)
    assert (run.status, "job:mail v1" in run.out) == (0, True)

    assert (await perdure("job", "replay", job_id)).out == "replayed\n"
    assert (await perdure("job", "replay", "--all")).out == "0 replayed\n"
    assert (await perdure("job", "cancel", job_id)).out == "cancelled\n"


async def test_each_line_of_a_file_is_a_job(perdure: Command, client: Client) -> None:
    lines = b"".join(b'{"to": "p%d"}\n' % number for number in range(1500))
    made = await perdure("job", "enqueue", "mail", "--each", "-", "--tag", "a=b", stdin=lines)
    ids = made.out.split()
    assert (made.status, len(set(ids))) == (0, 1500)
    last = await client.jobs.get(ids[-1])
    assert (json.loads(last.payload)["to"], dict(last.tags)) == ("p1499", {"a": "b"})


async def test_a_payload_that_does_not_fit_names_its_field(perdure: Command) -> None:
    refused = await perdure("job", "enqueue", "mail", "--payload", '{"lines": 1}')
    assert refused.status == 1
    assert "payload.to" in refused.err
    assert "payload.lines" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("enqueue", "mail", "--each", "-", "--key", "k"),
        ("list", "--status", "timid"),
        ("replay",),
        ("replay", "an-id", "--all"),
        ("replay", "--all", "--limit", "1001"),
        ("fly",),
    ],
)
def test_wrong_usage_of_jobs_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(cli, ("job", *arguments)).exit_code == 2
