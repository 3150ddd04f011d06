"""The exclusive keys of the engine in memory: who has each, and who waits for it in what order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.actions import KeyMove, MoveKey
from perdure_machine.view import KeyQueue, RunState


@dataclass(slots=True)
class _Key:
    holder: UUID | None = None
    told: set[UUID] = field(default_factory=set)
    waiting: list[UUID] = field(default_factory=list)


class ExclusiveKeys:
    """Keys by org and name; `is_open` tells whether a run has not ended."""

    def __init__(self, is_open: Callable[[UUID], bool]) -> None:
        self._is_open = is_open
        self._keys: dict[tuple[str, str], _Key] = {}

    def queue(self, org: str, key: str, run_id: UUID) -> KeyQueue:
        """Return who has and wants a key, as the run sees it."""
        held = self._keys.get((org, key), _Key())
        waits = run_id in held.waiting
        before = held.waiting[: held.waiting.index(run_id)] if waits else held.waiting
        return KeyQueue(
            holder=held.holder,
            is_open=held.holder is not None and self._is_open(held.holder),
            told=held.holder in held.told,
            first=before[0] if before else None,
            untold=tuple(one for one in before if one not in held.told),
            waits=waits,
        )

    def holder_behind(self, run: RunState) -> UUID | None:
        """Return whom a run waits behind at its key; None if it has no place there."""
        held = self._keys.get((run.org, run.exclusive_key or ""))
        return held.holder if held is not None and run.run_id in held.waiting else None

    def move(self, run: RunState, moves: Sequence[MoveKey]) -> None:
        """Do what a run decided about its key."""
        for move in moves:
            held = self._keys.setdefault((run.org, move.key), _Key())
            self._move(held, run.run_id, move)
            if held.holder is None and not held.waiting:
                del self._keys[run.org, move.key]

    def _move(self, held: _Key, run_id: UUID, move: MoveKey) -> None:
        match move.move:
            case KeyMove.TAKE:
                held.holder = run_id
                self._leave(held, run_id)
            case KeyMove.PASS:
                held.holder = move.to
                self._leave(held, move.to)
            case KeyMove.AWAIT:
                held.waiting.append(run_id)
            case KeyMove.REPLACE:
                holders = (held.holder,) if held.holder is not None else ()
                held.told = {*holders, *held.waiting}
            case KeyMove.LEAVE:
                self._leave(held, run_id)
            case KeyMove.FREE:
                held.holder = None

    @staticmethod
    def _leave(held: _Key, run_id: UUID | None) -> None:
        held.waiting = [one for one in held.waiting if one != run_id]
