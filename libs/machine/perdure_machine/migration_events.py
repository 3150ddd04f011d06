"""Migrations among the events of a run: what one carries, and when its turn is in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from perdure_runtime.errors import Aborted, Reason

from perdure_machine.events import Event, FireTimer
from perdure_machine.migration import Plan, decode_plan
from perdure_machine.states import TimerKind
from perdure_machine.view import View


def plan_of(view: View, event: Event) -> Plan | None:
    """Return the plan that an event delivers, None where it is no migration."""
    if not isinstance(event, FireTimer):
        return None
    timer = view.timers.get(event.timer_id)
    if timer is None or timer.kind is not TimerKind.MIGRATE or timer.remaining > 0:
        return None
    return decode_plan(timer.details or b"")


def targets(view: View) -> Iterator[int]:
    """Yield the versions that the events of a view may lead its run to."""
    for timer in view.timers.values():
        if timer.kind is TimerKind.MIGRATE:
            yield decode_plan(timer.details or b"").to_id


def in_turn(view: View, events: Sequence[Event]) -> list[int]:
    """Return the places of a batch's events in the order in which they are to be applied.

    A migration comes last: what was loaded for the others is what the old version reads.
    """
    return sorted(range(len(events)), key=lambda place: plan_of(view, events[place]) is not None)


def migrated_just_now(run_id: UUID) -> Aborted:
    """Say that an event must wait for the commit of the migration in front of it."""
    return Aborted(f"run {run_id} is just being migrated", reason=Reason.RETRY)
