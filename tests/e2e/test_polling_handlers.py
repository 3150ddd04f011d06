"""Handlers in processes of their own that poll: what they do, and what comes of their deaths."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure
import pytest_asyncio
from perdure_testkit.api_keys import give_key
from perdure_testkit.polling import MODULE

from tests.e2e.scene import SHARED_ENGINE, Scene, outcomes, step_of

pytestmark = SHARED_ENGINE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "polling_handler" / "workflow.yaml"
ORG = "elsewhere"
"""The workers of the engine serve handlers of their own org alone."""

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@dataclass(frozen=True)
class Elsewhere(Scene):
    """The engine as another org sees it."""

    own: perdure.Client

    @property
    def client(self) -> perdure.Client:
        return self.own


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(scene: Scene) -> AsyncIterator[Elsewhere]:
    async with scene.place.connection() as connection:
        key = await give_key(connection, org=ORG)
    address = scene.engine.ports.address("ingest")
    async with perdure.Client(address, api_key=key, timeout=60.0, attempts=30) as client:
        yield Elsewhere(scene.engine, scene.provider, client)


@pytest_asyncio.fixture(loop_scope="session")
async def poll(scene: Scene) -> AsyncIterator[Start]:
    """What starts a program that polls; those that still run at the end are killed."""
    started: list[asyncio.subprocess.Process] = []
    async with scene.place.connection() as connection:
        key = await give_key(connection, org=ORG, roles=["worker"])

    async def start(module: str = MODULE, worker: str = "worker") -> asyncio.subprocess.Process:
        told = {
            "PERDURE_API_KEY": key,
            "PERDURE_HANDLERS_ADDRESS": scene.engine.ports.door(worker),
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, env={**os.environ, **told}, cwd=scene.place.directory
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def held(given: dict[str, str]) -> dict[str, Any]:
    return {"hold": {"task": {"handler": "test.hold", "input": given}}}


async def test_protocol_p3_a_killed_handler_s_task_is_lost_and_done_by_another(
    elsewhere: Elsewhere, poll: Start
) -> None:
    holding = elsewhere.new_holding()
    first = await poll()
    run_id = await elsewhere.start(held(holding.given))
    assert await holding.wait_running() == first.pid

    first.send_signal(signal.SIGKILL)
    second = await poll(worker="worker-2")
    assert await holding.wait_moved(first.pid) == second.pid
    holding.let_go()

    step = step_of(await elsewhere.completed(run_id), "hold")
    assert outcomes(step) == ["lost", "completed"]
    assert (step.losses, step.failures) == (1, 0)


async def test_f050_the_result_of_a_handler_that_was_away_too_long_does_not_count(
    elsewhere: Elsewhere, poll: Start
) -> None:
    holding = elsewhere.new_holding()
    stalled = await poll()
    run_id = await elsewhere.start(held(holding.given))
    assert await holding.wait_running() == stalled.pid

    stalled.send_signal(signal.SIGSTOP)
    other = await poll()
    assert await holding.wait_moved(stalled.pid) == other.pid
    stalled.send_signal(signal.SIGCONT)
    stalled.send_signal(signal.SIGTERM)
    assert await stalled.wait() == 0
    holding.let_go()

    step = step_of(await elsewhere.completed(run_id), "hold")
    assert outcomes(step) == ["lost", "completed"]


async def test_the_example_that_polls_without_the_sdk_does_what_its_page_says(
    elsewhere: Elsewhere, poll: Start
) -> None:
    await elsewhere.client.publish_workflow(EXAMPLE.read_text())
    program = await poll("examples.polling_handler.poller")
    good = await elsewhere.client.start_run("scoring", {"customer": "ada"})
    bad = await elsewhere.client.start_run("scoring", {"customer": "nobody"})

    run = await elsewhere.completed(good.run_id)
    assert json.loads(run.output) == {"customer": "ada", "score": 30}
    assert step_of(run, "score").failures == 1
    failed = await elsewhere.ended(bad.run_id)
    assert failed.error.code == "CANNOT_SCORE"
    assert step_of(failed, "collect").failures == 1

    program.send_signal(signal.SIGTERM)
    assert await program.wait() == 0
