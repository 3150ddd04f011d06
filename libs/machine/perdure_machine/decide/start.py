"""The start of a run: its first row, and its beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from perdure_runtime.errors import FieldViolation, InvalidArgument

from perdure_machine.decide.advance import advance
from perdure_machine.decide.beginning import begin_run, put_off
from perdure_machine.decide.consent import about_run, run_subject
from perdure_machine.decide.draft import Decision, Draft
from perdure_machine.decide.exclusive import Entry, enter, key_held, key_of
from perdure_machine.decide.limits import limits_of
from perdure_machine.decide.mail import store
from perdure_machine.definition.model import Definition
from perdure_machine.events import Start
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import Mailbox
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
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
    """Return the decision that makes the run, and begins it unless it is put off or has to wait.

    `event` is as `check_start` returned it, with the queue of its key. Raises `AlreadyExists` where
    another run holds that and this one does not wait, and `ViewTooNarrow` where `mail` lacks a
    correlation key that one of its nodes waits on.
    """
    draft = _new_draft(definition, lanes, event, mail)
    about_run(draft)
    if event.start is not None:
        put_off(draft, event.start)
    elif event.exclusive_key is None:
        begin_run(draft)
    else:
        _begin_in_turn(draft)
    if event.signal is not None:
        store(draft, event.signal)
    if not draft.run.pending:
        advance(draft)
    return draft.decision(Started(draft.run))


def _begin_in_turn(draft: Draft) -> None:
    match enter(draft):
        case Entry.FREE:
            begin_run(draft)
        case Entry.BUSY:
            draft.run = replace(draft.run, pending=True)
        case Entry.REFUSED:
            raise key_held(draft)


def check_start(definition: Definition, lanes: Mapping[str, Lane], event: Start) -> Start:
    """Return the event with what its input settles, before anything is stored for it.

    Raises `InvalidArgument`.
    """
    settled_by_input = (definition.deadline, definition.subject, definition.exclusive)
    if all(one is None for one in settled_by_input):
        return event
    draft = _new_draft(definition, lanes, event, NOTHING_SENT)
    with _refused("deadline"):
        limits_of(draft)
    with _refused("subject"):
        run_subject(draft)
    with _refused("exclusive key"):
        return replace(event, exclusive_key=key_of(draft))


@contextmanager
def _refused(what: str) -> Iterator[None]:
    try:
        yield
    except ExpressionFailed as failure:
        problem = f"gives the {what} no value: {failure.source}: {failure.message}"
        raise InvalidArgument(
            f"the input {problem}", violations=[FieldViolation("input", problem)]
        ) from failure


def _new_draft(
    definition: Definition, lanes: Mapping[str, Lane], event: Start, mail: Mailbox
) -> Draft:
    run, places = new_run(definition, event), frozenset({TOP})
    view = View(run, known_places=places, mail=mail, queue=event.queue)
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
        exclusive_key=event.exclusive_key,
    )
