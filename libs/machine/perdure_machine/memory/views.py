"""A run of the engine in memory as a decision sees it: all of it, so nothing is ever lacking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from perdure_machine.budgets import CostState
from perdure_machine.decide.children import MAX_LEFT_AT_ONCE, is_leaving
from perdure_machine.decide.winding import MAX_STOPPED_AT_ONCE, scopes_inside
from perdure_machine.mailbox import Mailbox
from perdure_machine.memory.rows import RunRow, StepRow, TimerRow
from perdure_machine.places import TOP, Place
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, StepStatus
from perdure_machine.view import AttemptState, RowsOf, ScopeState, StepState, TimerState, View

_ENDED_OTHERWISE = ENDED - {StepStatus.COMPLETED}


def view_of(row: RunRow, now: float, mail: Mailbox) -> View:
    """Return the view; as on the database, a run's output is no part of it."""
    return with_unfinished(
        View(
            run=replace(row.state, output=row.state.output if row.state.ending else None),
            steps={number: _step(step, now) for number, step in row.steps.items()},
            known_places=frozenset({TOP, *row.scopes}),
            scopes=dict(row.scopes),
            blocks=dict(row.blocks),
            attempts=tuple(attempts_of(row)),
            effects={key: effect.at(now) for key, effect in row.effects.items()},
            timers={number: _timer(timer, now) for number, timer in row.timers.items()},
            children=dict(row.children),
            passed=row.passed(now),
            connections=dict(row.connections),
            mail=mail,
            costs={n: row.costs.get(n, CostState(n, 0)) for n in row.steps},
            spending=row.spending,
        )
    )


def with_absent_scope(view: View, place: Place) -> View:
    """Return the view, which says so where there is no such scope."""
    if place == TOP or place in view.scopes:
        return view
    return replace(view, absent_scopes=frozenset({place}))


def with_unfinished(view: View) -> View:
    """Return the view with every step that has not ended, and those inside of each whole.

    And with the children to cancel.
    """
    unfinished = (n for n, step in sorted(view.steps.items()) if step.status not in ENDED)
    leaving = [
        number
        for number, child in sorted(view.children.items())
        if is_leaving(view.run, view.steps[number], child)
    ]
    return replace(
        view,
        unfinished=tuple(unfinished),
        compensable=tuple(_compensable(view)),
        reopening=tuple(n for n, step in sorted(view.steps.items()) if _may_reopen(step)),
        open_inside=dict(_open_inside(view)),
        leaving=tuple(leaving[: MAX_LEFT_AT_ONCE + 1]),
        rows=_Rows(view.scopes.values()),
    )


def _compensable(view: View) -> Iterator[int]:
    ranked = [(step.ended_rank or 0, n) for n, step in view.steps.items() if step.compensable]
    return (n for _, n in sorted(ranked, reverse=True))


def _may_reopen(step: StepState) -> bool:
    """Tell whether a retry of the run looks at the step."""
    ended_late = step.status is StepStatus.COMPLETED and step.ended_rank is None
    return step.place == TOP and (ended_late or step.status in _ENDED_OTHERWISE)


class _Rows(Mapping[RowsOf, tuple[ScopeState, ...]]):
    """The scopes that are asked for, whichever they are."""

    def __init__(self, scopes: Iterable[ScopeState]) -> None:
        self._scopes = {(one.owner, one.generation, one.index): one for one in scopes}

    def __getitem__(self, rows: RowsOf) -> tuple[ScopeState, ...]:
        indexes = range(rows.start, rows.start + rows.count)
        keys = ((rows.step, rows.generation, index) for index in indexes)
        return tuple(self._scopes[key] for key in keys if key in self._scopes)

    def __iter__(self) -> Iterator[RowsOf]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _open_inside(view: View) -> Iterator[tuple[str, tuple[int, ...]]]:
    open_ = [step for step in view.steps.values() if step.status not in ENDED]
    for number in view.blocks:
        for prefix in scopes_inside(view.steps[number]):
            inside = sorted(step.step for step in open_ if step.scope.startswith(prefix))
            yield prefix, tuple(inside[: MAX_STOPPED_AT_ONCE + 1])


def attempts_of(row: RunRow) -> Iterator[AttemptState]:
    """Yield the finished acquisitions in the order of their ends."""
    for attempt in row.attempts:
        one = attempt.record
        yield AttemptState(one.step, one.fence, one.lease_id, one.outcome, one.next_step)


def _step(row: StepRow, now: float) -> StepState:
    expiry = row.lease_expires_at
    return replace(row.state, lease_left=None if expiry is None else expiry - now)


def _timer(row: TimerRow, now: float) -> TimerState:
    timer = row.timer
    return TimerState(
        timer_id=row.timer_id,
        kind=timer.kind,
        step=timer.step,
        generation=timer.generation,
        remaining=row.due_at - now,
        details=timer.details,
        now_ms=int(now * 1000),
    )
