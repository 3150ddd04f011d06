"""One engine for these tests: two workers of every queue, and one of the slow lane; TLS between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest_asyncio
from perdure_stack.services import SERVICES, process_names
from perdure_testkit import step_handlers
from perdure_testkit.authority import Authority
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

PROVING = ("ingest", "coordinator", "worker", "timer", "sweeper")
"""The services that call the coordinator, and itself: here they talk by TLS alone."""

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
        crew = _crew(collector.endpoint, _proofs(place.directory / "tls"))
        async with Engine(place, crew) as engine:
            yield Scene(engine, provider)
        await provider.stop()


ROOT = Path(__file__).parents[2]
HANDLERS = [
    step_handlers.MODULE,
    *(f"examples.{path.parent.name}.handlers" for path in ROOT.glob("examples/*/handlers.py")),
]
"""What the workers serve: the testkit's handlers and those of every example."""


def _proofs(folder: Path) -> dict[str, dict[str, str]]:
    """Return what tells services of certificates by which they prove who they are."""
    authority = Authority()
    issued = {name: authority.issue(folder / name, name) for name in PROVING}
    return {
        name: {
            "PERDURE_TLS_CERT": files.certificate,
            "PERDURE_TLS_KEY": files.key,
            "PERDURE_TLS_CA": files.authorities,
        }
        for name, files in issued.items()
    }


def _crew(endpoint: str, proofs: Mapping[str, Mapping[str, str]]) -> Crew:
    traced = {"PERDURE_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": EXPORT_DELAY_MS}
    serving = {"PERDURE_WORKER_HANDLERS": ",".join(HANDLERS), "PYTHONPATH": str(ROOT)}
    slow = {"PERDURE_WORKER_QUEUES": f"slow:shared,slow:default,{MADE_LANE}:default"}
    told = {name: traced | dict(proofs.get(name, {})) for name in SERVICES}
    told |= {"worker": told["worker"] | serving, SLOW_WORKER: slow}
    return Crew(process_names(3), told)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(shared_scene: Scene) -> AsyncIterator[Scene]:
    """The engine; at the end of each test nothing is left behind in it (R10)."""
    yield shared_scene
    await assert_nothing_left(shared_scene.place)
