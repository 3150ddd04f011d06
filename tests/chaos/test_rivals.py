"""Two of every service on one database and one Redis, also when one half stands still."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio
from perdure_stack.services import SERVICES
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.nemesis import lapse_leadership

from tests.chaos.rig import Rig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

RUNS = 100
WORKERS = 3
ELECTED = ("relay", "timer", "sweeper")

_WORKERS = "SELECT count(DISTINCT worker) AS n FROM attempts WHERE run_id = ANY ($1::uuid[])"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rival(rig: Rig) -> AsyncIterator[Engine]:
    """A second one of each service, with a coordinator of its own."""
    names = tuple(f"{service}-rival" for service in SERVICES)
    async with Engine(rig.place, Crew(names)) as engine:
        yield engine


@pytest_asyncio.fixture(loop_scope="session")
async def stalled(rig: Rig) -> AsyncIterator[list[str]]:
    """Names of processes that a test stops; they go on after it whatever became of it."""
    names: list[str] = []
    yield names
    rig.tours.let_go()
    _signal_all(rig, names, signal.SIGCONT)


async def test_a_hundred_runs_complete_with_two_of_every_service(rig: Rig, rival: Engine) -> None:
    runs = await asyncio.gather(*(rig.tours.start() for _ in range(RUNS)))

    await rig.all_complete(list(runs))
    (row,) = await rig.place.fetch(_WORKERS, [UUID(run.run_id) for run in runs])
    assert row["n"] == WORKERS


async def test_leaders_that_stood_still_do_no_harm_when_they_go_on_beside_their_successors(
    rig: Rig, rival: Engine, stalled: list[str]
) -> None:
    runs = await rig.start_runs()

    stalled += ELECTED
    _signal_all(rig, stalled, signal.SIGSTOP)
    for service in ELECTED:
        await lapse_leadership(rig.place, service)
    runs += await rig.start_more()
    _signal_all(rig, stalled, signal.SIGCONT)

    await rig.all_complete(runs)


async def test_one_half_ends_the_runs_while_the_other_stands_still_and_then_goes_on_r6_f051(
    rig: Rig, rival: Engine, stalled: list[str]
) -> None:
    runs = await rig.start_runs()

    stalled += [name for name in rig.engine.supervisor.names if name != "ingest"]
    _signal_all(rig, stalled, signal.SIGSTOP)
    for service in ELECTED:
        await lapse_leadership(rig.place, service)
    await rig.all_complete(runs)
    _signal_all(rig, stalled, signal.SIGCONT)

    await rig.all_complete([*runs, *await rig.start_more()])


def _signal_all(rig: Rig, names: list[str], number: signal.Signals) -> None:
    for name in names:
        rig.engine.send_signal(name, number)
