"""Migrations of the engine in memory: each run gets its event at once, as no list is too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from perdure_machine.actions import SetTimer
from perdure_machine.decide.legality import Versions
from perdure_machine.decide.migrating import why_not
from perdure_machine.definition.compare import check_map
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import Mailbox
from perdure_machine.memory.rows import RunRow, TimerRow
from perdure_machine.memory.views import view_of
from perdure_machine.migration import MigrationOutcome, Plan, Refusal, Told, encode_plan
from perdure_machine.states import RunStatus, TimerKind


def chosen(
    runs: Iterable[RunRow], org: str, versions: Versions, run_ids: Iterable[UUID] | None
) -> list[RunRow]:
    """Return the unfinished runs on the version that they are to leave, or some of them.

    Raises `InvalidArgument` for a map of nodes that the two versions cannot have.
    """
    check_map(versions.plan.nodes, versions.old, versions.new)
    wanted = None if run_ids is None else set(run_ids)
    return [
        row
        for row in runs
        if row.state.org == org
        and row.state.workflow_id == versions.plan.from_id
        and row.state.status is RunStatus.RUNNING
        and (wanted is None or row.state.run_id in wanted)
    ]


def send(rows: Iterable[RunRow], plan: Plan, now: float, timer_ids: Iterator[int]) -> None:
    """Give each run the event that moves it."""
    details = encode_plan(plan)
    for row in rows:
        run, number = row.state, next(timer_ids)
        timer = SetTimer(TimerKind.MIGRATE, None, 0.0, run.generation, details)
        row.timers[number] = TimerRow(number, run.org, run.run_id, timer, now)
        row.migrations[plan.migration_id] = Told(MigrationOutcome.PENDING)


def checked(
    rows: Iterable[RunRow], versions: Versions, lanes: Mapping[str, Lane], now: float
) -> dict[UUID, tuple[Refusal, ...]]:
    """Return why each run would stay where it is, nothing for those that would move."""
    return {
        row.state.run_id: why_not(versions, lanes, view_of(row, now, Mailbox())) for row in rows
    }
