"""Processes that stand still longer than their leases and then go on as if nothing had been."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from perdure_testkit.waiting import eventually

from tests.chaos.rig import Rig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

STALL_SECONDS = 20.0

_LEASED = """
SELECT count(*) AS n FROM steps WHERE status = 'running' AND lease_expires_at > clock_timestamp()
"""
_LOST = "SELECT count(*) AS n FROM steps WHERE losses > 0 AND status = 'running'"


@pytest_asyncio.fixture(loop_scope="session")
async def stalled(rig: Rig) -> AsyncIterator[list[str]]:
    """Names of processes that a test stops; they go on after it whatever became of it."""
    names: list[str] = []
    yield names
    rig.tours.let_go()
    for name in names:
        rig.engine.send_signal(name, signal.SIGCONT)


async def test_runs_end_though_the_coordinator_stood_still_beyond_every_lease_p1_f050(
    rig: Rig, stalled: list[str]
) -> None:
    runs = await rig.start_runs()
    stalled.append("coordinator")

    rig.engine.send_signal("coordinator", signal.SIGSTOP)
    await eventually(lambda: _none(rig, _LEASED), within=STALL_SECONDS, what="leases ran out")
    rig.tours.let_go()
    rig.engine.send_signal("coordinator", signal.SIGCONT)

    await rig.all_complete(runs)


async def test_a_worker_that_stood_still_beyond_its_leases_changes_nothing_r6_f050_f051(
    rig: Rig, stalled: list[str]
) -> None:
    runs = await rig.start_runs()
    stalled.append("worker")

    rig.engine.send_signal("worker", signal.SIGSTOP)
    await eventually(lambda: _some(rig, _LOST), within=STALL_SECONDS, what="its steps moved on")
    rig.tours.let_go()
    rig.engine.send_signal("worker", signal.SIGCONT)

    await rig.all_complete(runs)


async def _none(rig: Rig, query: str) -> bool:
    return not await _some(rig, query)


async def _some(rig: Rig, query: str) -> bool:
    (row,) = await rig.place.fetch(query)
    return bool(row["n"])
