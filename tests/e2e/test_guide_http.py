"""The commands of the guide to HTTP/JSON run as they are written, in one shell, with curl."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import httpx

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "http.md"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def commands() -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE))


async def test_the_guide_to_http_runs_as_it_is_written(scene: Scene) -> None:
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-euc",
        commands(),
        env={
            **os.environ,
            "PERDURE_URL": scene.engine.ports.http_url,
            "PERDURE_API_KEY": scene.engine.api_key,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, (out, err)
    printed = out.decode()
    assert '"created":true' in printed
    assert "event: end\ndata: {}" in printed
    assert printed.count('"output":{"text":"Hello Maya","number":12345678901234567890123}') == 3
    assert '"field":"priority"' in printed
    (run,) = [run async for run in scene.client.list_runs(workflow="curl_hello")]
    assert run.start_key == "curl-1"


async def test_a_run_goes_on_in_the_trace_of_who_started_it_over_http(scene: Scene) -> None:
    nodes = {"only": {"transform": 1}}
    await scene.client.publish_workflow(json.dumps({"name": "http_traced", "nodes": nodes}))
    async with httpx.AsyncClient(base_url=scene.engine.ports.http_url, verify=False) as web:
        answer = await web.post(
            "/v1/runs",
            json={"workflow": "http_traced"},
            headers={
                "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
                "Authorization": f"Bearer {scene.engine.api_key}",
            },
        )
    run = await scene.completed(answer.json()["run_id"])
    assert run.traceparent.split("-")[1] == TRACE
