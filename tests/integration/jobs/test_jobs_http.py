"""Jobs over HTTP/JSON: the same calls, payloads as they are, refusals by status and field."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from perdure_testkit.calls import Calls

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "jobs.md"
BIG = '{"to": "ann",  "n": 18446744073709551616, "language": "en"}'
JSON = {"Content-Type": "application/json"}


def details(answer: httpx.Response) -> Any:
    return answer.json()["details"]


async def test_r12_a_job_is_posted_got_and_cancelled_with_its_payload_byte_for_byte(
    web: httpx.AsyncClient, calls: Calls
) -> None:
    body = f'{{"type": "mail", "idempotency_key": "k", "payload": {BIG}}}'
    made = await web.post("/v1/jobs", content=body, headers=JSON)
    assert (made.status_code, made.json()["created"]) == (200, True)
    job_id = made.json()["job_id"]
    got = await web.get(f"/v1/jobs/{job_id}")
    assert f'"payload":{BIG}' in got.text
    assert got.json()["job"]["status"] == "JOB_STATUS_QUEUED"

    cancelled = await web.post(f"/v1/jobs/{job_id}/cancel", json={"reason": "not wanted"})
    assert (cancelled.status_code, cancelled.json()) == (200, {"changed": True})
    done = (await web.post("/v1/jobs", json={"type": "note"})).json()["job_id"]
    grant = await calls.grant(UUID(done))
    await calls.fail(grant.lease, "permanent")
    dead = (await web.get("/v1/dead-jobs", params={"type": "note"})).json()["dead_jobs"]
    assert [one["job_id"] for one in dead] == [done]
    replayed = await web.post(f"/v1/jobs/{done}/replay", json={})
    assert replayed.json() == {"changed": True}
    answer = await web.post("/v1/dead-jobs/replay", json={"type": "note"})
    assert answer.json() == {"replayed": 0, "more": False}


async def test_f116_what_is_refused_is_told_by_status_reason_and_field(
    web: httpx.AsyncClient,
) -> None:
    first = await web.post("/v1/jobs", json={"type": "note", "idempotency_key": "k"})
    other = await web.post("/v1/jobs", json={"type": "note", "idempotency_key": "k", "payload": 1})
    assert other.status_code == 409
    assert details(other)[0]["reason"] == "JOB_ALREADY_ENQUEUED"
    assert details(other)[0]["metadata"] == {"job_id": first.json()["job_id"]}

    unfit = await web.post("/v1/jobs", json={"type": "mail", "payload": {"to": 1}})
    assert unfit.status_code == 400
    assert "payload.to" in unfit.text
    bulk = {"jobs": [{"type": "mail", "payload": {"to": "ann"}}, {"type": "mail"}]}
    none = await web.post("/v1/jobs/bulk", json=bulk)
    assert none.status_code == 400
    assert "jobs[1].payload.to" in none.text
    missing = await web.get(f"/v1/jobs/{UUID(int=0)}")
    assert (missing.status_code, details(missing)[0]["reason"]) == (404, "JOB_NOT_FOUND")
    jobs = (await web.get("/v1/jobs")).json()["jobs"]
    assert [one["job_id"] for one in jobs] == [first.json()["job_id"]]


async def test_the_curl_commands_of_the_guide_run_as_they_are_written(
    web: httpx.AsyncClient, api_key: str
) -> None:
    found = re.findall(r"^```shell\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-euc",
        "\n".join(found),
        env={
            **os.environ,
            "PERDURE_URL": str(web.base_url).rstrip("/"),
            "PERDURE_API_KEY": api_key,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    printed = out.decode()
    assert process.returncode == 0, (printed, err)
    assert printed.count('"type":"letter"') == 2
    assert '"number": 12345678901234567890123' in printed
    assert '"field":"payload.to"' in printed
    assert printed.rstrip().endswith('{"changed":true}')
