"""The inbox and the open waits of a run in its draft; asks for what was not loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable

from perdure_machine.actions import (
    CloseWait,
    NoteSignal,
    OpenWait,
    StoreSignal,
    TakeSignal,
)
from perdure_machine.callbacks import is_channel
from perdure_machine.decide.draft import Draft
from perdure_machine.expressions import ExpressionCode, ExpressionFailed
from perdure_machine.mailbox import SignalState, WaitState
from perdure_machine.payload import object_bytes
from perdure_machine.replacing import replace
from perdure_machine.view import ViewTooNarrow, Wanted

MAX_KEY = 200
"""Longest correlation key, in characters."""


def inbox(draft: Draft, *names: str) -> tuple[SignalState, ...]:
    """Return the unconsumed signals of these names, one after the other, the oldest of each first.

    Raises `ViewTooNarrow`.
    """
    lacking = frozenset(name for name in names if not draft.mail.knows(name))
    if lacking:
        raise ViewTooNarrow(Wanted(signals=lacking))
    return tuple(signal for name in names for signal in draft.mail.waiting(name))


def claim(draft: Draft, key: str, *names: str) -> bool:
    """Tell whether the key is the run's, which it becomes if it is nobody's.

    What came by it before is then in the inbox. Raises `ViewTooNarrow`.
    """
    owner = draft.mail.owners.get(key)
    if owner is None and not draft.mail.whole:
        raise ViewTooNarrow(Wanted(keys=frozenset({key}), signals=frozenset(names)))
    return owner in (None, draft.run.run_id)


def has_mail(draft: Draft) -> None:
    """Note that the run's end has an inbox, waits or keys to clear."""
    draft.run = replace(draft.run, has_mail=True)


def store(draft: Draft, signal: SignalState) -> None:
    """Keep a signal that was sent to the run."""
    has_mail(draft)
    draft.mail = draft.mail.with_signal(signal)
    draft.actions.append(StoreSignal(signal))
    if is_channel(signal.name):
        draft.record("callback_answered", id=signal.signal_id)
    else:
        draft.record("signal_received", signal=signal.name, id=signal.signal_id)


def take(draft: Draft, signal: SignalState, step: int) -> None:
    """Let a step consume a signal (R9)."""
    draft.mail = draft.mail.without(signal)
    draft.actions.append(TakeSignal(signal.address, step))


def note(draft: Draft, signals: Iterable[SignalState]) -> None:
    """Remember of signals that were stored without the run's knowing that it knows of them now."""
    draft.actions += [NoteSignal(signal.address) for signal in signals if not signal.seen]


def open_wait(draft: Draft, wait: WaitState) -> None:
    """Let a step wait for a signal."""
    draft.mail = draft.mail.with_wait(wait)
    draft.actions.append(OpenWait(wait))


def close_wait(draft: Draft, step: int) -> None:
    """Let a step wait for no signal any more."""
    draft.mail = draft.mail.without_wait(step)
    draft.actions.append(CloseWait(step))


def signal_bytes(signal: SignalState, name: str) -> bytes:
    """Return a signal as expressions see it; its data are copied byte for byte (R12).

    `name` is the one that its wait asks for, which an answer to a callback has too.
    """
    members = {"id": _text(signal.signal_id), "name": _text(name), "data": signal.data}
    if is_channel(signal.name):
        members["callback"] = b"true"
    if signal.key is not None:
        members["key"] = _text(signal.key)
    return object_bytes(members)


def key_text(value: bytes, source: str) -> str:
    """Return a correlation key as text. Raises `ExpressionFailed` for what can be none."""
    read = json.loads(value)
    if isinstance(read, int) and not isinstance(read, bool):
        read = value.decode()
    if not isinstance(read, str):
        shown = value[:80].decode("utf-8", "replace")
        problem = f"a key is text or a whole number, not {shown}"
        raise ExpressionFailed(ExpressionCode.TYPE, problem, source)
    if not 1 <= len(read) <= MAX_KEY or "\0" in read or not _is_unicode(read):
        problem = f"a key has 1 to {MAX_KEY} characters, without NUL and halves of surrogate pairs"
        raise ExpressionFailed(ExpressionCode.TYPE, problem, source)
    return read


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
