"""The HTTP door of a whole ingest: its handlers, its database, its watches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

BIG = b'{"id": 1970670598291982290, "n": 18446744073709551616, "z": 1, "a": "\\u0000\\ud800"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def web(http_url: str, api_key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=http_url, headers=presented(api_key), timeout=20.0, verify=False
    ) as client:
        yield client


async def test_r12_f103_payloads_pass_byte_for_byte_both_ways(
    web: httpx.AsyncClient, coordinator: Any, rows: Any
) -> None:
    body = b'{"workflow": "w", "input": ' + BIG + b"}"
    started = await web.post("/v1/runs", content=body, headers=JSON)
    assert started.status_code == 200, started.text
    assert coordinator.items[0].input == BIG
    deep = b'{"workflow": "w", "input": ' + b"[" * 101 + b"]" * 101 + b"}"
    refused = await web.post("/v1/runs", content=deep, headers=JSON)
    assert refused.status_code == 400
    assert "input is nested deeper than 100 levels" in refused.json()["message"]
    run_id = await rows.run(run_input=BIG, output=BIG)
    await rows.step(run_id, input=BIG, output=BIG)
    shown = await web.get(f"/v1/runs/{run_id}")
    assert shown.content.count(b'put":' + BIG) == 4
    missing = await web.get("/v1/runs/00000000-0000-0000-0000-000000000000")
    assert missing.status_code == 404
    assert missing.json()["details"][0]["reason"] == "RUN_NOT_FOUND"


async def test_a_list_goes_on_by_its_page_token(web: httpx.AsyncClient, rows: Any) -> None:
    wanted = {str(await rows.run(tags={"who": "a b"})) for _ in range(3)}
    await rows.run(tags={"who": "c"})
    found, token = list[str](), ""
    while token or not found:
        query = {"tags[who]": "a b", "page_size": "2", "page_token": token}
        page = (await web.get("/v1/runs", params=query)).json()
        found += [run["run_id"] for run in page["runs"]]
        token = page["next_page_token"]
    assert len(found) == 3
    assert set(found) == wanted


async def test_a_watched_run_is_told_by_events_until_its_end(
    web: httpx.AsyncClient, rows: Any
) -> None:
    run_id = await rows.waiting_run()
    seen = list[dict[str, Any]]()
    last_id = ""
    async with web.stream("GET", f"/v1/runs/{run_id}/watch") as answer:
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                last_id = value
            if name == "data":
                seen.append(json.loads(value))
                if len(seen) == 1:
                    await rows.finish(run_id)
    first, last, end = seen
    assert first["run"]["status"] == "RUN_STATUS_RUNNING"
    assert last["run"]["status"] == "RUN_STATUS_COMPLETED"
    assert last["run"]["revision"] == last_id
    assert end == {}
    again = await web.get(f"/v1/runs/{run_id}/watch", headers={"Last-Event-ID": last_id})
    assert again.status_code == 204


async def test_the_gate_is_one_for_both_doors(
    web: httpx.AsyncClient, coordinator: Any, database: Database
) -> None:
    body = b'{"workflow": "w"}'
    viewer = await give_key(await database.connect(), roles=["viewer"])
    refused = {
        "KEY_MISSING": await web.post("/v1/runs", content=body, headers={"Authorization": ""}),
        "KEY_INVALID": await web.post("/v1/runs", content=body, headers=presented("pdr_x")),
        "PERMISSION_MISSING": await web.post("/v1/runs", content=body, headers=presented(viewer)),
    }
    assert {name: answer.json()["details"][0]["reason"] for name, answer in refused.items()} == {
        name: name for name in refused
    }
    assert [answer.status_code for answer in refused.values()] == [401, 401, 403]
    assert coordinator.items == []


def presented(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
