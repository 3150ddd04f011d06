"""The `perdure` command against a real ingest: what people and scripts see."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    CommandRunResult,
    SignalResult,
    StartRunResult,
)
from perdure_testkit.command_line import Command, command_at

BIG = b'{"id": 1970670598291982290, "n": 18446744073709551616, "u": "\\u0000", "z": 1, "a": 2}'


@pytest.fixture
def perdure(address: str, api_key: str, tmp_path: Path) -> Command:
    """Run `perdure ...` with the ingest's address and a key in the environment."""
    return command_at(address, tmp_path, api_key=api_key)


async def test_f103_big_integers_come_back_exact_in_json(perdure: Command, rows: Any) -> None:
    run_id = await rows.run(run_input=BIG, output=BIG)
    await rows.step(run_id, input=BIG, output=BIG)
    shown = await perdure("run", "show", str(run_id), "--json")
    assert shown.out.encode().count(BIG) == 4
    assert shown.json()["input"]["n"] == 2**64
    assert shown.json()["input"]["id"] == 1970670598291982290


async def test_an_input_is_sent_byte_for_byte_however_it_is_given(
    perdure: Command, coordinator: Any, tmp_path: Path
) -> None:
    (tmp_path / "input.json").write_bytes(BIG)
    await perdure("run", "start", "w", "--input", BIG.decode())
    await perdure("run", "start", "w", "--input", "@input.json")
    await perdure("run", "start", "w", "--input", "-", stdin=BIG)
    assert [item.input for item in coordinator.items] == [BIG] * 3


async def test_signal_says_where_it_went_and_whether_it_was_new(
    perdure: Command, coordinator: Any
) -> None:
    run = str(uuid.uuid4())
    assert (await perdure("run", "signal", run, "go", "--data", "1")).out == f"sent to run {run}\n"
    waits = await perdure(
        "run", "signal", "--key", "k", "go", "--id", "x", "--data", "-", stdin=BIG
    )
    assert waits.out == "waits for a run with this key\n"
    first, second = (item.signal for item in coordinator.items)
    assert (first.name, first.data) == ("go", b"1")
    assert (second.data, second.signal_id) == (BIG, "x")

    async def known(item: Any) -> SignalResult:
        return SignalResult(is_new=False, run_id=run)

    coordinator.signal = known
    assert (await perdure("run", "signal", run, "go")).out == "had been sent before\n"
    assert (await perdure("run", "signal", run, "go", "--json")).json()["run_id"] == run


async def test_a_start_passes_its_signal(perdure: Command, coordinator: Any) -> None:
    await perdure("run", "start", "w", "--signal", "go", "--signal-data", "7")
    (item,) = coordinator.items
    assert (item.signal.name, item.signal.data) == ("go", b"7")


async def test_start_prints_the_id_and_passes_key_tags_and_version(
    perdure: Command, coordinator: Any
) -> None:
    started = await perdure(
        "run", "start", "w", "--key", "k", "--tag", "a=b=c", "--tag", "d=", "--version", "2"
    )
    (item,) = coordinator.items
    assert str(uuid.UUID(started.out.strip())) == started.out.strip()
    assert (item.start_key, dict(item.tags), item.version) == ("k", {"a": "b=c", "d": ""}, 2)
    as_json = await perdure("run", "start", "w", "--json")
    assert as_json.json()["created"] is True


async def test_start_passes_on_when_the_run_is_to_begin(perdure: Command, coordinator: Any) -> None:
    assert (await perdure("run", "start", "w", "--after", "90")).status == 0
    assert (await perdure("run", "start", "w", "--at", "2030-01-01T12:00:00Z")).status == 0
    after, at = coordinator.items
    assert after.start_after.ToSeconds() == 90
    assert at.start_at.ToJsonString() == "2030-01-01T12:00:00Z"


async def test_start_and_wait_tells_the_end_by_its_status(
    perdure: Command, coordinator: Any, rows: Any
) -> None:
    async def start(item: Any) -> StartRunResult:
        run_id = await rows.run(status=item.workflow, output=None)
        return StartRunResult(run_id=str(run_id), workflow_version=1, created=True)

    coordinator.start = start
    good = await perdure("run", "start", "completed", "--wait")
    bad = await perdure("run", "start", "failed", "--wait", "--json")
    assert (good.status, bad.status) == (0, 1)
    assert "completed after" in good.out
    assert bad.json()["status"] == "failed"


async def test_show_says_in_one_line_what_a_run_waits_for(perdure: Command, rows: Any) -> None:
    run_id = await rows.waiting_run(due_in=timedelta(hours=2))
    shown = await perdure("run", "show", str(run_id))
    assert shown.status == 0
    (standing,) = [line for line in shown.out.splitlines() if line.startswith("now")]
    assert "`pause` waits until" in standing
    assert "(in 1 h 59 min)" in standing
    assert "\x1b[" not in shown.out


async def test_show_names_parent_and_children_and_list_finds_them(
    perdure: Command, rows: Any
) -> None:
    parent = await rows.run(workflow="order")
    await rows.step(parent, node="pack", kind="run")
    child = await rows.run(workflow="parcel", parent=(parent, 1))
    await rows.child(parent, 1, child)
    shown = (await perdure("run", "show", str(parent))).out.splitlines()
    assert any(line.split()[:2] == [str(child), "pack"] for line in shown)
    below = (await perdure("run", "show", str(child))).out
    assert f"child of {parent}" in below
    listed = await perdure("run", "list", "--parent", str(parent), "--json")
    assert [each["run_id"] for each in listed.json()] == [str(child)]


async def test_list_filters_and_prints_a_list(perdure: Command, rows: Any) -> None:
    run_id = await rows.run(workflow="a", tags={"x": "1"})
    await rows.run(workflow="b")
    listed = await perdure("run", "list", "--tag", "x=1", "--status", "completed", "--json")
    assert [each["run_id"] for each in listed.json()] == [str(run_id)]
    assert [each["tags"] for each in listed.json()] == [{"x": "1"}]
    table = (await perdure("run", "list", "--limit", "1")).out.splitlines()
    assert len(table) == 2
    assert "b v1" in table[1]


async def test_history_is_told_in_words(perdure: Command, rows: Any) -> None:
    run_id = await rows.waiting_run()
    await rows.history(run_id, 2)
    told = await perdure("run", "history", str(run_id))
    assert told.out.count("`pause` waits for a worker") == 2
    as_json = await perdure("run", "history", str(run_id), "--json")
    assert [event["seq"] for event in as_json.json()] == [1, 2]


async def test_watch_prints_changes_until_the_end(perdure: Command, rows: Any) -> None:
    run_id = await rows.run()
    await rows.step(run_id)
    watched = await perdure("run", "watch", str(run_id))
    assert watched.status == 0
    assert [line.split()[2:4] for line in watched.out.splitlines()] == [
        ["n1", "completed"],
        ["run", "completed"],
    ]


async def test_the_command_prints_the_value_or_that_there_is_none(
    perdure: Command, rows: Any
) -> None:
    run_id = await rows.publishing_run()
    late = await perdure("run", "wait", str(run_id), "--until", "receipt", "--timeout", "0.1")
    assert late.status == 1
    assert "took longer than 0.1 s" in late.err
    await rows.finish(run_id)
    without = await perdure("run", "wait", str(run_id), "--until", "receipt")
    assert without.status == 1
    assert "completed, without publishing `receipt`" in without.err
    ended = await perdure("run", "wait", str(run_id))
    assert ended.status == 0
    assert "completed after" in ended.out
    await rows.step(run_id, 2, output=BIG)
    there = await perdure("run", "wait", str(run_id), "--until", "receipt")
    assert (there.status, there.out) == (0, BIG.decode() + "\n")


@pytest.mark.parametrize(
    ("name", "done", "as_before"),
    [
        ("pause", "paused", "was paused already"),
        ("resume", "resumed", "there was nothing to resume"),
        ("terminate", "terminated", "had been cancelled before"),
    ],
)
async def test_a_command_says_whether_it_changed_anything(
    perdure: Command, coordinator: Any, name: str, done: str, as_before: str
) -> None:
    first = await perdure("run", name, str(uuid.uuid4()), "--reason", "enough")
    assert (first.status, first.out) == (0, f"{done}\n")

    async def command(item: Any) -> CommandRunResult:
        return CommandRunResult(changed=False)

    coordinator.command = command
    assert (await perdure("run", name, str(uuid.uuid4()))).out == f"{as_before}\n"


async def test_cancel_says_whether_it_changed_anything(perdure: Command, coordinator: Any) -> None:
    cancelled = await perdure("run", "cancel", str(uuid.uuid4()), "--reason", "enough")
    assert (cancelled.status, cancelled.out) == (0, "cancelled\n")
    assert coordinator.items[0].reason == "enough"


async def test_workflows_are_published_validated_listed_and_shown(
    perdure: Command, coordinator: Any, rows: Any, tmp_path: Path
) -> None:
    document = b"name: w\nnodes: {a: {task: {handler: h}}}\n"
    (tmp_path / "w.yaml").write_bytes(document)
    published = await perdure("workflow", "publish", "w.yaml")
    assert published.out == "published w version 1\n"
    assert coordinator.items[0].document == document
    valid = await perdure("workflow", "validate", "-", stdin=document)
    invalid = await perdure("workflow", "validate", "-", stdin=b"name: w\nnodes: {a: {}}\n")
    assert (valid.status, invalid.status) == (0, 1)
    assert "nodes.a" in invalid.err
    await rows.workflow("w", 1)
    assert "w" in (await perdure("workflow", "list")).out
    assert (await perdure("workflow", "show", "w")).out == "name: w # 1\n"
    shown = (await perdure("workflow", "show", "w", "--json")).json()
    assert (shown["document"], shown["version"]) == ("name: w # 1", 1)


async def test_doctor_exits_with_1_when_it_finds_something(perdure: Command, rows: Any) -> None:
    healthy = await perdure("doctor")
    assert healthy.status == 0
    assert healthy.out.count("ok  ") == 9
    await rows.waiting_run(due_in=-timedelta(hours=2))
    ill = await perdure("doctor")
    assert ill.status == 1
    assert "do this: see that timer runs" in ill.out
    names = [check["name"] for check in (await perdure("doctor", "--json")).json()["checks"]]
    assert "overdue_timers" in names


async def test_errors_for_people_have_one_shape(perdure: Command, rows: Any) -> None:
    missing = str(uuid.uuid4())
    unknown = await perdure("run", "show", missing)
    assert unknown.status == 1
    assert [line.split(":")[0] for line in unknown.err.splitlines()] == ["what", "where", "do this"]
    assert missing in unknown.err
    refused = await perdure("run", "start", "w", "--input", "{", "--priority", "500")
    assert refused.status == 1
    assert "priority: must lie between -100 and 100" in refused.err
    assert "input: is not a JSON document" in refused.err
    assert "Traceback" not in unknown.err + refused.err
