"""Runs past a limit are ended, however many cannot be."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from perdure_sweeper import expiry
from perdure_testkit.calls import Calls

AGED = "name: aged\nlimits: {age: 1h}\nnodes: {a: {task: {handler: h}}}"


async def grow_old(sweeps: Any, *runs: UUID) -> None:
    await sweeps.rows.execute(
        "UPDATE runs SET age_at = age_at - interval '2 h' WHERE run_id = ANY ($1::uuid[])",
        list(runs),
    )


async def ended(sweeps: Any) -> dict[UUID, str]:
    rows = await sweeps.rows.fetch("SELECT run_id, status::text FROM runs")
    return {row["run_id"]: row["status"] for row in rows}


async def test_a_run_past_its_age_is_timed_out_and_others_go_on(calls: Calls, sweeps: Any) -> None:
    await calls.publish(AGED)
    old, young, ageless = (
        await calls.start("aged"),
        await calls.start("aged"),
        await calls.start(),
    )
    await grow_old(sweeps, old, ageless)

    first, second = await sweeps.expiry.run_once(), await sweeps.expiry.run_once()

    assert [first.counts["old_runs"], second.counts["old_runs"]] == [1, 0]
    assert await ended(sweeps) == {old: "timed_out", young: "running", ageless: "running"}
    error = await sweeps.rows.fetchval("SELECT error FROM runs WHERE run_id = $1", old)
    assert b"RUN_TOO_OLD" in error


async def test_a_run_past_its_deadline_is_timed_out(calls: Calls, sweeps: Any) -> None:
    await calls.publish("name: due\nlimits: {age: 1h}\ndeadline: 30m\nnodes: {a: {wait: 9d}}")
    late, other = await calls.start("due"), await calls.start("due")
    await sweeps.rows.execute(
        "UPDATE runs SET deadline_at = clock_timestamp() WHERE run_id = $1", late
    )

    done = await sweeps.expiry.run_once()

    assert done.counts["old_runs"] == 1
    assert await ended(sweeps) == {late: "timed_out", other: "running"}
    error = await sweeps.rows.fetchval("SELECT error FROM runs WHERE run_id = $1", late)
    assert b"DEADLINE" in error


async def test_a_run_past_both_its_limits_is_ended_once(calls: Calls, sweeps: Any) -> None:
    await calls.publish("name: due\nlimits: {age: 1h}\ndeadline: 30m\nnodes: {a: {wait: 9d}}")
    run = await calls.start("due")
    await sweeps.rows.execute(
        "UPDATE runs SET deadline_at = clock_timestamp(), age_at = clock_timestamp()"
        " WHERE run_id = $1",
        run,
    )

    done = await sweeps.expiry.run_once()

    assert done.counts["old_runs"] == 1
    assert await ended(sweeps) == {run: "timed_out"}


@pytest.mark.breaks_r10("runs whose workflow is taken away cannot be ended")
async def test_f057_old_runs_behind_a_page_that_cannot_be_ended_are_ended(
    calls: Calls, sweeps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PAGE", 2)
    await calls.publish(AGED)
    broken = [await calls.start("aged") for _ in range(4)]
    whole = await calls.start("aged")
    await grow_old(sweeps, *broken, whole)
    await sweeps.rows.execute(
        "UPDATE runs SET workflow_id = 0, age_at = age_at - interval '1 h'"
        " WHERE run_id = ANY ($1::uuid[])",
        broken,
    )

    done = await sweeps.expiry.run_once()

    assert done.counts["old_runs"] == 1
    assert (await ended(sweeps))[whole] == "timed_out"
