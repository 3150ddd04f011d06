"""The start of a run: its first row, and its beginning."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_runtime.errors import FieldViolation, InvalidArgument

from perdure_machine.decide.advance import advance
from perdure_machine.decide.beginning import begin_run, limits_of, put_off
from perdure_machine.decide.draft import Decision, Draft
from perdure_machine.decide.mail import store
from perdure_machine.definition.model import Definition
from perdure_machine.events import Start
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import Mailbox
from perdure_machine.places import TOP
from perdure_machine.replies import Started
from perdure_machine.states import RunStatus
from perdure_machine.view import RunState, View

NOTHING_SENT = Mailbox(whole=True)
"""What a new run has in its inbox, as long as it has no correlation key."""


def decide_start(
    definition: Definition,
    lanes: Mapping[str, Lane],
    event: Start,
    mail: Mailbox = NOTHING_SENT,
) -> Decision:
    """Return the decision that makes the run, and begins it unless it is put off.

    Raises `ViewTooNarrow` where `mail` lacks a correlation key that one of its nodes waits on.
    """
    draft = _new_draft(definition, lanes, event, mail)
    if event.start is None:
        begin_run(draft)
    else:
        put_off(draft, event.start)
    if event.signal is not None:
        store(draft, event.signal)
    if event.start is None:
        advance(draft)
    return draft.decision(Started(draft.run))


def check_start(definition: Definition, lanes: Mapping[str, Lane], event: Start) -> None:
    """Refuse a start before anything is stored for it. Raises `InvalidArgument`."""
    try:
        limits_of(_new_draft(definition, lanes, event, NOTHING_SENT))
    except ExpressionFailed as failure:
        problem = f"gives the deadline no value: {failure.source}: {failure.message}"
        raise InvalidArgument(
            f"the input {problem}", violations=[FieldViolation("input", problem)]
        ) from failure


def _new_draft(
    definition: Definition, lanes: Mapping[str, Lane], event: Start, mail: Mailbox
) -> Draft:
    view = View(new_run(definition, event), known_places=frozenset({TOP}), mail=mail)
    return Draft(definition, lanes, view)


def new_run(definition: Definition, event: Start) -> RunState:
    """Return the run as it is before anything has happened in it."""
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
