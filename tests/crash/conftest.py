"""One engine for the whole matrix: it is armed once, and each entry starts again what it killed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.place import temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.tours import Tours

from tests.crash.matrix import armed_everywhere
from tests.crash.stage import Stage

ENGINE_NUMBER = 4


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def matrix_stage(servers: Servers, worker_number: int) -> AsyncIterator[Stage]:
    async with temporary_place(servers, ENGINE_NUMBER + worker_number) as place:
        tokens = place.directory / "tokens"
        tokens.mkdir()
        provider = Provider()
        await provider.start()
        async with Engine(place, Crew(env=armed_everywhere(tokens), restart=False)) as engine:
            stage = Stage(Tours(engine, provider), tokens)
            await stage.publish()
            yield stage
        await provider.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(matrix_stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """The stage with everything running, also after an entry that failed half-way."""
    yield matrix_stage
    await matrix_stage.repair()
