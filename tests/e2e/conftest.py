"""One engine for these tests: two workers of every queue, and one of the slow lane alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from perdure_stack.services import process_names
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.place import temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.verdict import assert_nothing_left

from tests.e2e.scene import Scene

ENGINE_NUMBER = 0
SLOW_WORKER = "worker-3"

CREW = Crew(
    names=process_names(3),
    env={SLOW_WORKER: {"PERDURE_WORKER_QUEUES": "slow:shared,slow:default"}},
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_scene(servers: Servers, worker_number: int) -> AsyncIterator[Scene]:
    async with temporary_place(servers, ENGINE_NUMBER + worker_number) as place:
        provider = Provider()
        await provider.start()
        async with Engine(place, CREW) as engine:
            yield Scene(engine, provider)
        await provider.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def scene(shared_scene: Scene) -> AsyncIterator[Scene]:
    """The engine; at the end of each test nothing is left behind in it (R10)."""
    yield shared_scene
    await assert_nothing_left(shared_scene.place)
