"""Folds the events of one run in one batch, as the engine in memory does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perdure_runtime.errors import PerdureError

from perdure_machine.actions import Action
from perdure_machine.decide import Decision
from perdure_machine.events import Acquire, Event
from perdure_machine.memory.views import with_unfinished
from perdure_machine.migration_events import in_turn, migrated_just_now
from perdure_machine.replies import Blocked, Reply
from perdure_machine.view import View, ViewTooNarrow, Wanted

Decide = Callable[[View, Event], Decision]
Widen = Callable[[View, Wanted], View]
"""Adds what a decision asked for."""


@dataclass(slots=True)
class Folded:
    """What a batch comes to; `blocked` are steps that stay queued for want of a place."""

    actions: list[Action] = field(default_factory=list)
    answers: dict[int, Reply | PerdureError] = field(default_factory=dict)
    blocked: list[int] = field(default_factory=list)


def fold(view: View, events: Sequence[Event], decide: Decide, widen: Widen) -> Folded:
    """Apply events in turn, and answer each by its place."""
    folded, version = Folded(), view.run.workflow_id
    for place in in_turn(view, events):
        event = events[place]
        if view.run.workflow_id != version:
            folded.answers[place] = migrated_just_now(view.run.run_id)
            continue
        try:
            decision = _decided(view, event, decide, widen)
        except PerdureError as error:
            folded.answers[place] = error
            continue
        view = with_unfinished(decision.view)
        folded.actions += decision.actions
        folded.answers[place] = decision.reply
        if isinstance(decision.reply, Blocked) and isinstance(event, Acquire):
            folded.blocked.append(event.step)
    return folded


def _decided(view: View, event: Event, decide: Decide, widen: Widen) -> Decision:
    while True:
        try:
            return decide(view, event)
        except ViewTooNarrow as narrow:
            view = widen(view, narrow.wanted)
