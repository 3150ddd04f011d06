"""The start of a run: its first row, and the nodes that need nothing."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.decide.advance import advance
from perdure_machine.decide.draft import Decision, Draft
from perdure_machine.definition.model import Definition
from perdure_machine.events import Start
from perdure_machine.lanes import Lane
from perdure_machine.places import TOP, at_top
from perdure_machine.replies import Started
from perdure_machine.states import RunStatus
from perdure_machine.view import RunState, View


def decide_start(definition: Definition, lanes: Mapping[str, Lane], event: Start) -> Decision:
    """Return the decision that makes the run and begins its first nodes."""
    view = View(_new_run(definition, event), known_places=frozenset({TOP}))
    draft = Draft(definition, lanes, view)
    draft.age_limit(definition.limits.age)
    _record(draft)
    draft.candidates.extend(map(at_top, definition.top.roots))
    advance(draft)
    return draft.decision(Started(draft.run))


def _record(draft: Draft) -> None:
    parent = draft.run.parent
    if parent is None:
        draft.record("run_started")
    else:
        draft.record("run_started", parent_run_id=str(parent.run_id), parent_step=parent.step)


def _new_run(definition: Definition, event: Start) -> RunState:
    return RunState(
        run_id=event.run_id,
        org=event.org,
        workflow_id=event.workflow_id,
        workflow=definition.name,
        workflow_version=event.workflow_version,
        status=RunStatus.RUNNING,
        revision=0,
        generation=0,
        priority=event.priority,
        next_step=1,
        ended_nodes=0,
        next_seq=1,
        input=event.input,
        output=None,
        error=None,
        start_key=event.start_key,
        tags=event.tags,
        traceparent=event.traceparent,
        parent=event.parent,
        depth=event.depth,
    )
