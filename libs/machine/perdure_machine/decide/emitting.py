"""Signals that a run sends: an internal event of its own, so that no event locks two runs (R14)."""

from __future__ import annotations

import json
from uuid import UUID

import msgspec

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.mail import key_text
from perdure_machine.definition.model import Emit
from perdure_machine.events import Emitted
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, Scope, Template, render
from perdure_machine.mailbox import MAX_DATA, SignalState
from perdure_machine.replies import Applied, Emission, Reply, Stale
from perdure_machine.states import TimerKind
from perdure_machine.view import StepState, TimerState

EMITTED = "emit:"
"""Begins the ids of signals that runs send."""

_NOTHING = b"null"


class _Letter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the timer holds."""

    id: str
    name: str
    data: msgspec.Raw
    key: str | None = None
    run: str | None = None


_decoder = msgspec.json.Decoder(_Letter)


def emitted(kind: Emit, scope: Scope, letter_id: str) -> _Letter:
    """Return the letter of a node, under an id of its own. Raises `ExpressionFailed`."""
    data = _NOTHING if kind.data is None else render(kind.data, scope)
    if len(data) > MAX_DATA:
        assert kind.data is not None
        problem = f"it gives {len(data)} bytes; a signal carries at most {MAX_DATA}"
        raise ExpressionFailed(ExpressionCode.LIMIT, problem, kind.data.source)
    return _Letter(
        id=letter_id,
        name=kind.signal,
        data=msgspec.Raw(data),
        key=None if kind.key is None else key_text(render(kind.key, scope), kind.key.source),
        run=None if kind.run is None else _run_id(kind.run, scope),
    )


def post(draft: Draft, step: StepState, letter: _Letter) -> None:
    """Have the letter sent after the commit."""
    details = msgspec.json.encode(letter)
    draft.actions.append(SetTimer(TimerKind.EMIT, None, 0.0, draft.run.generation, details=details))
    to = {"run": letter.run} if letter.run is not None else {"key": str(letter.key)}
    draft.record("signal_emitted", step, signal=letter.name, **to)


def emission(timer: TimerState) -> Emission:
    """Return what is to be sent; the timer goes when it was."""
    letter = _decoder.decode(timer.details or b"")
    target = UUID(letter.run) if letter.run is not None else None
    signal = SignalState(letter.id, letter.name, bytes(letter.data), letter.key, seen=False)
    return Emission(timer.timer_id, signal, target)


def end_emission(draft: Draft, event: Emitted) -> Reply:
    """Drop the timer of what was sent, or can never be."""
    timer = draft.timers.get(event.timer_id)
    if timer is None:
        return Stale()
    draft.drop_timer(timer.timer_id)
    if event.refusal:
        draft.record("emission_refused", reason=event.refusal)
    return Applied()


def _run_id(template: Template, scope: Scope) -> str:
    value = render(template, scope)
    read = json.loads(value)
    try:
        return str(UUID(read if isinstance(read, str) else ""))
    except ValueError:
        shown = value[:80].decode("utf-8", "replace")
        problem = f"{shown} is no id of a run"
        raise ExpressionFailed(ExpressionCode.TYPE, problem, template.source) from None
