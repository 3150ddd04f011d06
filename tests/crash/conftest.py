"""One engine for the whole matrix: it is armed once, and each entry starts again what it killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.place import temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.techniques import Technique
from perdure_testkit.tours import Tours

from tests.crash.matrix import armed_everywhere
from tests.crash.stage import Stage

ENGINE_NUMBER = 4


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def matrix_stage(
    servers: Servers, worker_number: int, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    """The engine with all techniques of the hot path, or without the one that is asked for."""
    technique: Technique | None = getattr(request, "param", None)
    async with temporary_place(servers, ENGINE_NUMBER + worker_number) as place:
        tokens = place.directory / "tokens"
        tokens.mkdir()
        provider = Provider()
        await provider.start()
        async with Engine(place, Crew(env=_environment(tokens, technique), restart=False)) as made:
            stage = Stage(Tours(made, provider), tokens)
            await stage.publish()
            yield stage
        await provider.stop()


def _environment(tokens: Path, without: Technique | None) -> dict[str, Mapping[str, str]]:
    armed = armed_everywhere(tokens)
    off = without.off if without is not None else {}
    return {name: {**armed.get(name, {}), **off.get(name, {})} for name in armed.keys() | off}


@pytest_asyncio.fixture(loop_scope="session")
async def stage(matrix_stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """The stage with everything running, also after an entry that failed half-way."""
    yield matrix_stage
    await matrix_stage.repair()
