"""One engine for these tests: two workers of every queue, and one of the slow lane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from perdure_stack.services import SERVICES, process_names
from perdure_testkit import step_handlers
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.otlp import Collector, running_collector
from perdure_testkit.place import temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.verdict import assert_nothing_left

from tests.e2e.scene import Scene

ENGINE_NUMBER = 0
SLOW_WORKER = "worker-3"
MADE_LANE = "mail"
"""It serves the lane that a test makes, too; until then there is none."""

EXPORT_DELAY_MS = "200"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def collector() -> AsyncIterator[Collector]:
    """Where every process of the engine sends its spans."""
    async with running_collector() as collector:
        yield collector


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def shared_scene(
    servers: Servers, worker_number: int, collector: Collector
) -> AsyncIterator[Scene]:
    async with temporary_place(servers, ENGINE_NUMBER + worker_number) as place:
        provider = Provider()
        await provider.start()
        async with Engine(place, _crew(collector.endpoint)) as engine:
            yield Scene(engine, provider)
        await provider.stop()


ROOT = Path(__file__).parents[2]
HANDLERS = [
    step_handlers.MODULE,
    *(f"examples.{path.parent.name}.handlers" for path in ROOT.glob("examples/*/handlers.py")),
]
"""What the workers serve: the testkit's handlers and those of every example."""


def _crew(endpoint: str) -> Crew:
    traced = {"PERDURE_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": EXPORT_DELAY_MS}
    serving = {"PERDURE_WORKER_HANDLERS": ",".join(HANDLERS), "PYTHONPATH": str(ROOT)}
    slow = {"PERDURE_WORKER_QUEUES": f"slow:shared,slow:default,{MADE_LANE}:default"}
    told = {**dict.fromkeys(SERVICES, traced), "worker": traced | serving, SLOW_WORKER: slow}
    return Crew(process_names(3), told)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(shared_scene: Scene) -> AsyncIterator[Scene]:
    """The engine; at the end of each test nothing is left behind in it (R10)."""
    yield shared_scene
    await assert_nothing_left(shared_scene.place)
