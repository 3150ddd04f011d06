"""A run whose turn nobody told it of is found, and begins."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from perdure_contracts.internal.v1.coordinator_service_pb2 import TimerRef
from perdure_testkit.calls import Calls

TURNS = "name: turns\nexclusive: {key: one}\nnodes: {a: {task: {handler: h}}}"


async def pending(sweeps: Any) -> dict[UUID, bool]:
    rows = await sweeps.rows.fetch("SELECT run_id, pending FROM runs WHERE status = 'running'")
    return {row["run_id"]: row["pending"] for row in rows}


async def deliver(calls: Calls, sweeps: Any) -> None:
    while timers := await sweeps.rows.fetch("SELECT run_id, timer_id FROM timers"):
        refs = [
            TimerRef(org=calls.org, run_id=str(row["run_id"]), timer_id=row["timer_id"])
            for row in timers
        ]
        await calls.fire(*refs)


@pytest.mark.breaks_r10("the event that hands the key over is lost")
async def test_a_run_whose_hand_over_was_lost_is_found_and_begins(
    calls: Calls, sweeps: Any
) -> None:
    await calls.publish(TURNS)
    first, second, third = [await calls.start("turns") for _ in range(3)]
    await calls.cancel(first)
    await sweeps.rows.execute("DELETE FROM timers WHERE kind = 'hand_over'")

    done, again = await sweeps.expiry.run_once(), await sweeps.expiry.run_once()

    assert [one.counts["stalled_runs"] for one in (done, again)] == [1, 0]
    await deliver(calls, sweeps)
    assert await pending(sweeps) == {second: False, third: True}


async def test_runs_whose_turn_has_not_come_are_left_alone(calls: Calls, sweeps: Any) -> None:
    await calls.publish(TURNS)
    first, second = await calls.start("turns"), await calls.start("turns")

    assert (await sweeps.expiry.run_once()).counts["stalled_runs"] == 0
    await calls.cancel(first)
    assert (await sweeps.expiry.run_once()).counts["stalled_runs"] == 0

    await deliver(calls, sweeps)
    assert await pending(sweeps) == {second: False}
