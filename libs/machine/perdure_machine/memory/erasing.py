"""Erasures of the engine in memory: each run gets its event at once, as no list is too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.actions import EraseRows, PutSubject, RecordHistory, SetTimer
from perdure_machine.changes import Changes
from perdure_machine.erasure import (
    ERASED,
    ERASED_TAGS,
    LATE,
    ROWS_AT_ONCE,
    Part,
    Place,
    Portion,
    first_place,
)
from perdure_machine.memory.post import LetterRow, Post
from perdure_machine.memory.rows import HistoryRow, RunRow, TimerRow
from perdure_machine.node_error import ERASED_ERROR
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.subjects import normal
from perdure_machine.view import EffectState, NodeError


@dataclass(frozen=True, slots=True)
class ErasureTold:
    """How far an erasure came: runs that are still to be erased, those that are, rows by kind."""

    pending: int
    ended: int
    rows: Mapping[str, int]


@dataclass(slots=True)
class _Erasure:
    """An erasure: whom it is about, the runs that it came to, and what it found in them."""

    org: str
    subject: str
    asked_at: float
    open: set[UUID] = field(default_factory=set)
    ended: set[UUID] = field(default_factory=set)
    rows: Counter[str] = field(default_factory=Counter)


class Erasures:
    """Does what the events of erasures ask for beyond their own run."""

    def __init__(self, runs: Mapping[UUID, RunRow], post: Post, timer_ids: Iterator[int]) -> None:
        self._runs = runs
        self._post = post
        self._timer_ids = timer_ids
        self._asked: dict[UUID, _Erasure] = {}

    def begin(self, erasure_id: UUID, org: str, subject: str, now: float) -> None:
        """Send every run about a subject the event that begins its erasure."""
        self._asked[erasure_id] = _Erasure(org, normal(subject), now)
        for row in self._runs.values():
            named = {normal(one.subject) for one in row.subjects.values()}
            if row.state.org == org and normal(subject) in named:
                self._send(row, erasure_id, now)

    def told(self, erasure_id: UUID) -> ErasureTold:
        """Tell how far an erasure came."""
        asked = self._asked[erasure_id]
        return ErasureTold(len(asked.open), len(asked.ended), dict(asked.rows))

    def portions(self, row: RunRow) -> Portions:
        """Return where the parts of a run go on."""
        return Portions(row, self._runs.values())

    def write(self, row: RunRow, changes: Changes, now: float) -> None:
        """Erase what an event comes to; send events to runs that it leads to."""
        for one in changes.erased:
            counts = erase_rows(row, self._post.letters, one)
            if one.place.erasure_id != LATE:
                self._asked[one.place.erasure_id].rows += counts
            if one.place.part is Part.CHILDREN:
                self._send_children(row, one, now)
        for ended in changes.erasures_ended:
            if ended.erasure_id != LATE:
                asked = self._asked[ended.erasure_id]
                asked.open.discard(row.state.run_id)
                asked.ended.add(row.state.run_id)
        for about in changes.subjects:
            self._erase_if_asked_for(row, about, now)

    def _send_children(self, row: RunRow, erased: EraseRows, now: float) -> None:
        for child in children_of(row, self._runs.values()):
            if erased.place.after < str(child.state.run_id) <= erased.upto:
                self._send(child, erased.place.erasure_id, now)

    def _erase_if_asked_for(self, row: RunRow, about: PutSubject, now: float) -> None:
        """Erase a run that was there when the erasure was asked for and names the subject now."""
        for erasure_id, asked in self._asked.items():
            named = (asked.org, asked.subject) == (row.state.org, normal(about.subject))
            if named and row.created_at < asked.asked_at:
                self._send(row, erasure_id, now)

    def _send(self, row: RunRow, erasure_id: UUID, now: float) -> None:
        asked = self._asked.get(erasure_id)
        if asked is not None:
            if row.state.run_id in asked.open | asked.ended:
                return
            asked.open.add(row.state.run_id)
        number = next(self._timer_ids)
        timer = SetTimer(TimerKind.ERASE, None, 0.0, details=first_place(erasure_id).encoded())
        row.timers[number] = TimerRow(number, row.state.org, row.state.run_id, timer, now)


class Portions(Mapping[Place, Portion]):
    """The next rows after the places that are asked for, whichever they are."""

    def __init__(self, row: RunRow, runs: Iterable[RunRow]) -> None:
        self._row = row
        self._runs = runs

    def __getitem__(self, place: Place) -> Portion:
        found = [key for key in self._keys(place.part) if key > place.after]
        upto = found[:ROWS_AT_ONCE][-1] if found else place.after
        return Portion(upto, len(found) > ROWS_AT_ONCE)

    def _keys(self, part: Part) -> list[str]:
        if part is Part.SCOPES:
            return sorted(f"{place.scope} {place.generation}" for place in self._row.scopes)
        return sorted(str(child.state.run_id) for child in children_of(self._row, self._runs))

    def __iter__(self) -> Iterator[Place]:
        return iter(())

    def __len__(self) -> int:
        return 0


def children_of(row: RunRow, runs: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs that a run has started."""
    parents = ((one, one.state.parent) for one in runs)
    return [
        one for one, parent in parents if parent is not None and parent.run_id == row.state.run_id
    ]


def erase_rows(row: RunRow, letters: Iterable[LetterRow], erased: EraseRows) -> Counter[str]:
    """Put markers in the place of payloads and count the rows by kind."""
    after, upto = erased.place.after, erased.upto
    match erased.place.part:
        case Part.STEPS:
            return _erase_steps(row, range(int(after or 0) + 1, int(upto) + 1))
        case Part.HISTORY:
            return _erase_history(row, range(int(after or 0) + 1, int(upto) + 1))
        case Part.SCOPES:
            return _erase_scopes(row, after, upto)
        case Part.CHILDREN:
            return Counter()
        case Part.REST:
            return _erase_rest(row, letters)


def _erase_steps(row: RunRow, numbers: range) -> Counter[str]:
    steps = [one for number, one in row.steps.items() if number in numbers]
    for step in steps:
        step.state = replace(
            step.state,
            input=_bytes(step.state.input),
            output=_bytes(step.state.output),
            error=_error(step.state.error),
        )
    tries = [one for one in row.attempts if one.record.step in numbers]
    row.attempts = [
        replace(one, record=replace(one.record, error=_error(one.record.error)))
        if one.record.step in numbers
        else one
        for one in row.attempts
    ]
    for number, block in row.blocks.items():
        if number in numbers:
            row.blocks[number] = replace(block, error=_error(block.error))
    for effect in row.effects.values():
        if effect.state.step in numbers:
            effect.state = _effect(effect.state)
    return Counter(steps=len(steps), tries=len(tries))


def _effect(effect: EffectState) -> EffectState:
    call = effect.call
    if call is None:
        return effect
    return replace(effect, call=replace(call, digest=b"", result=_bytes(call.result), note=""))


def _erase_history(row: RunRow, numbers: range) -> Counter[str]:
    row.history = [_line(one) if one.line.seq in numbers else one for one in row.history]
    return Counter(history=sum(one.line.seq in numbers for one in row.history))


def _line(one: HistoryRow) -> HistoryRow:
    line = one.line
    return replace(one, line=RecordHistory(line.seq, line.kind, line.step, line.fence))


def _erase_scopes(row: RunRow, after: str, upto: str) -> Counter[str]:
    count = 0
    for place, scope in row.scopes.items():
        if after < f"{place.scope} {place.generation}" <= upto:
            count += 1
            row.scopes[place] = replace(
                scope,
                item=_bytes(scope.item),
                carry=_bytes(scope.carry),
                output=_bytes(scope.output),
                error=_error(scope.error),
            )
    return Counter(scopes=count)


def _erase_rest(row: RunRow, letters: Iterable[LetterRow]) -> Counter[str]:
    mine = [one for one in letters if one.run_id == row.state.run_id]
    for letter in mine:
        letter.signal = replace(letter.signal, data=ERASED)
    row.state = replace(
        row.state,
        input=ERASED,
        output=_bytes(row.state.output),
        error=_error(row.state.error),
        tags=ERASED_TAGS,
        start_key=None,
    )
    row.timers = {
        number: one for number, one in row.timers.items() if one.timer.kind is not TimerKind.EMIT
    }
    row.subjects = {}
    row.decisions = [replace(one, reason="") for one in row.decisions]
    return Counter(runs=1, signals=len(mine))


def _bytes(payload: bytes | None) -> bytes | None:
    return None if payload is None else ERASED


def _error(error: NodeError | None) -> NodeError | None:
    return None if error is None else ERASED_ERROR
