"""PostgreSQL dies or is restarted in mid-run: nothing is lost, nobody is charged, the runs end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from perdure_stack.postgres import EmbeddedPostgres

from tests.chaos.rig import Rig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]


@pytest_asyncio.fixture(loop_scope="session")
async def postgres(rig: Rig) -> AsyncIterator[EmbeddedPostgres]:
    """The server, which runs again after the test whatever became of it."""
    yield rig.postgres
    rig.tours.let_go()
    await rig.postgres.start()


async def test_runs_end_though_postgres_was_killed(rig: Rig, postgres: EmbeddedPostgres) -> None:
    runs = await rig.start_runs()

    await postgres.kill()
    await postgres.start()

    await rig.all_complete([*runs, *await rig.start_more()])


async def test_runs_end_though_postgres_was_restarted(rig: Rig, postgres: EmbeddedPostgres) -> None:
    runs = await rig.start_runs()

    await postgres.restart()

    await rig.all_complete([*runs, *await rig.start_more()])


async def test_calls_answered_while_postgres_is_away_are_reported_afterwards(
    rig: Rig, postgres: EmbeddedPostgres
) -> None:
    runs = await rig.start_runs()

    await postgres.stop()
    rig.tours.let_go()
    await postgres.start()

    await rig.all_complete(runs)
