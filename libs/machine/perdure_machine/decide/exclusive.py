"""Exclusive keys: of the runs of an org that name one key, one goes on at a time (R14, p9).

A run takes its key, or a place behind whoever has it, in the transaction in which it would begin.
A run that ends leaves an internal event that hands its key to the first that waits. Both happen
under the lock of the key, so no end misses a new waiter.
"""

from __future__ import annotations

import json
from enum import Enum, auto
from uuid import UUID

from perdure_runtime.errors import AlreadyExists, Reason

from perdure_machine.actions import KeyMove, MoveKey, SetTimer
from perdure_machine.decide.child_messages import ask_to_end
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.scope import scope_for
from perdure_machine.definition.model import ExclusivePolicy
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, render
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Reply, Stale
from perdure_machine.states import TimerKind
from perdure_machine.view import KeyQueue, TimerState, ViewTooNarrow, Wanted

MAX_KEY = 200
"""Longest key, in characters."""

EXCLUSIVE_KEY_HELD = "EXCLUSIVE_KEY_HELD"
"""The code of a run that was to begin later and then found its key held by another."""


class Entry(Enum):
    """What a run that is to begin finds at its key."""

    FREE = auto()  # it has the key now
    BUSY = auto()  # it waits for its place
    REFUSED = auto()  # another has it, and it does not wait


def key_of(draft: Draft) -> str | None:
    """Return the run's key, as text; None for a workflow without. Raises `ExpressionFailed`."""
    exclusive = draft.definition.exclusive
    if exclusive is None:
        return None
    value = render(exclusive.key, scope_for(draft, TOP, [exclusive.key]))
    read = json.loads(value)
    key = read if isinstance(read, str) else value.decode()
    if isinstance(read, dict | list | bool | None) or not 1 <= len(key) <= MAX_KEY or "\0" in key:
        raise ExpressionFailed(
            ExpressionCode.TYPE,
            f"a key is text of 1 to {MAX_KEY} characters without NUL, or a number",
            exclusive.key.source,
        )
    return key


def enter(draft: Draft) -> Entry:
    """Take the run's key, or a place behind those who have and want it, as its policy says."""
    exclusive, queue = draft.definition.exclusive, queue_of(draft)
    if exclusive is None or queue.holder == draft.run.run_id:
        return Entry.FREE
    if _is_free(queue):
        _move(draft, KeyMove.TAKE)
        return Entry.FREE
    if queue.waits:
        return Entry.BUSY
    if exclusive.policy is ExclusivePolicy.REFUSE:
        return Entry.REFUSED
    if exclusive.policy is ExclusivePolicy.REPLACE:
        _replace_others(draft, queue)
    _move(draft, KeyMove.AWAIT)
    draft.record("run_queued", run_id=str(ahead(queue)), key=draft.run.exclusive_key or "")
    return Entry.BUSY


def check_may_wait(draft: Draft) -> None:
    """Raise `AlreadyExists` where another run has the key and this one does not wait for it."""
    exclusive, queue = draft.definition.exclusive, queue_of(draft)
    is_own = queue.holder == draft.run.run_id or queue.waits
    waits = exclusive is None or exclusive.policy is not ExclusivePolicy.REFUSE
    if not (waits or is_own or _is_free(queue)):
        raise key_held(draft)


def _is_free(queue: KeyQueue) -> bool:
    return queue.first is None and not queue.is_open


def leave(draft: Draft, _timer: TimerState) -> None:
    """Hand the key of a run that ended to the first that waits for it."""
    if draft.running or draft.run.exclusive_key is None:
        return
    queue = queue_of(draft)
    if queue.holder != draft.run.run_id:
        _move(draft, KeyMove.LEAVE)
    elif queue.first is None:
        _move(draft, KeyMove.FREE)
    else:
        _move(draft, KeyMove.PASS, queue.first)
        draft.actions.append(SetTimer(TimerKind.BEGIN, None, 0.0, to=queue.first))


def rouse(draft: Draft) -> Reply:
    """Have a run look again whether it may begin; the sweep finds one that nobody told to."""
    if not draft.running or not draft.run.pending or draft.run.exclusive_key is None:
        return Stale()
    queue = queue_of(draft)
    if not queue.waits or queue.is_open or queue.first is not None:
        return Stale()
    draft.actions.append(SetTimer(TimerKind.BEGIN, None, 0.0))
    return Applied()


def key_held(draft: Draft) -> AlreadyExists:
    """Return the refusal of a run that does not wait for its key, which names who has it."""
    holder = ahead(queue_of(draft))
    return AlreadyExists(
        f"run {holder} holds the exclusive key `{draft.run.exclusive_key}`",
        reason=Reason.EXCLUSIVE_KEY_HELD,
        metadata={"run_id": str(holder)},
    )


def queue_of(draft: Draft) -> KeyQueue:
    """Return who has and wants the run's key. Raises `ViewTooNarrow`."""
    if draft.queue is None:
        raise ViewTooNarrow(Wanted(queue=True))
    return draft.queue


def ahead(queue: KeyQueue) -> UUID | None:
    """Return the run that has the key, or is the next to have it."""
    return queue.holder if queue.is_open else queue.first


def after(queue: KeyQueue, run_id: UUID, moves: tuple[MoveKey, ...], *, open_: bool) -> KeyQueue:
    """Return what the next start of a batch finds after `moves`; `open_`: the run has not ended."""
    for move in moves:
        match move.move:
            case KeyMove.TAKE:
                queue = replace(queue, holder=run_id, is_open=open_, told=False)
            case KeyMove.REPLACE:
                queue = replace(queue, untold=(), told=True)
            case KeyMove.AWAIT:
                first = queue.first or run_id
                queue = replace(queue, first=first, untold=(*queue.untold, run_id))
            case _:
                pass
    return queue


def _replace_others(draft: Draft, queue: KeyQueue) -> None:
    """Have the holder and those that wait cancelled, each once, however many replace them."""
    holder = (queue.holder,) if queue.holder and queue.is_open and not queue.told else ()
    for other in (*holder, *queue.untold):
        ask_to_end(draft, other, f"replaced by run {draft.run.run_id}")
    _move(draft, KeyMove.REPLACE)


def _move(draft: Draft, move: KeyMove, to: UUID | None = None) -> None:
    assert draft.run.exclusive_key is not None
    draft.actions.append(MoveKey(move, draft.run.exclusive_key, to))
