"""`for_each`: a scope for each item, so many at once; the counters tell when all have ended.

Items are rows from the start, made some at a time, so that no event takes longer for a longer list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.rows import reference, referred, row_bytes
from perdure_machine.decide.wholes import begin_scope, complete_whole, fail_whole, new_scope
from perdure_machine.definition.model import ForEach
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    Scope,
    Template,
    render,
)
from perdure_machine.payload import elements
from perdure_machine.places import Place, inner_scope
from perdure_machine.states import TimerKind
from perdure_machine.view import BlockState, NodeError, StepState, ViewTooNarrow, Wanted

MAX_MADE_AT_ONCE = 500
"""Items that one event makes the rows of (protocol p5)."""

MAX_ITEMS = 1_000_000
DEFAULT_CONCURRENCY = 100
"""Items of one `for_each` that run at once where the definition does not say."""

_ASKED_FOR = 100
"""Items to ask for at once, because inline ones end in the event that begins them."""

ITEMS_FAILED = "ITEMS_FAILED"
"""The code of a `for_each` of which more items failed than it tolerates."""


@dataclass(frozen=True, slots=True)
class Fan:
    """What a `for_each` begins with: a list or what stands for rows, how many, how many at once."""

    source: bytes
    total: int
    limit: int

    @property
    def is_kept(self) -> bool:
        """Whether the source is to be kept, because not all rows are made with the step."""
        return self.total > MAX_MADE_AT_ONCE


def fan_of(draft: Draft, kind: ForEach, values: Scope) -> Fan:
    """Evaluate what a `for_each` begins with. Raises `ExpressionFailed`."""
    source = render(kind.items, values)
    rows = referred(draft, source)
    items = elements(source) if rows is None else None
    if rows is None and items is None:
        raise _failure(f"{source[:80]!r} is no list", kind.items)
    count = rows.count if rows is not None else len(items or ())
    if count > MAX_ITEMS:
        raise ExpressionFailed(
            ExpressionCode.LIMIT,
            f"it gives {count} items; at most {MAX_ITEMS} are allowed",
            kind.items.source,
        )
    limit = DEFAULT_CONCURRENCY if kind.concurrency is None else _limit(kind.concurrency, values)
    return Fan(source, -(-count // kind.batch), limit)


def open_items(draft: Draft, step: StepState, generation: int, fan: Fan) -> None:
    """Make the first items and begin as many as may run. Raises `ViewTooNarrow`."""
    block = draft.put_block(BlockState(step.step, generation, total=fan.total, limit=fan.limit))
    draft.record("items_began", step, items=fan.total, at_once=fan.limit)
    if fan.total == 0:
        complete_whole(draft, step, reference(draft, block))
    else:
        _make(draft, step, block, fan.source)


def make_more(draft: Draft, step: StepState) -> None:
    """Make the next items of a list that was too long for one event. Raises `ViewTooNarrow`."""
    if step.input is None:
        raise ViewTooNarrow(Wanted(steps=frozenset({step.step})))
    _make(draft, step, draft.block(step), step.input)


def end_item(
    draft: Draft, step: StepState, index: int, error: NodeError | None, *, enough: bool
) -> NodeError | None:
    """Count an item that ended; begin the next, or end the step if it was the last.

    `enough`: no more of them are wanted. Returns the error with which the step is to stop, if the
    item was one failure too many.
    """
    kind, block = draft.node(step).kind, draft.block(step)
    assert isinstance(kind, ForEach)
    failed = block.failed + (error is not None)
    block = replace(block, ended=block.ended + 1, failed=failed)
    if error is not None:
        draft.record("item_failed", step, index=index, code=error.code, message=error.message)
        if block.error is None and _is_too_many(kind, block):
            block = replace(block, error=_items_failed(step, block, index, error))
    draft.put_block(block)
    if block.ended == block.total:
        _end_all(draft, step, block)
    elif block.error is not None and kind.failures.stop:
        return block.error
    elif not enough:
        _begin_next(draft, step, block)
    return None


def _make(draft: Draft, step: StepState, block: BlockState, source: bytes) -> None:
    kind = draft.node(step).kind
    assert isinstance(kind, ForEach)
    items = _items(draft, source, block.made, kind.batch)
    for offset, item in enumerate(items):
        new_scope(draft, step, block.generation, block.made + offset, item=item)
    block = draft.put_block(replace(block, made=block.made + len(items)))
    assert block.total is not None
    if block.made < block.total:
        draft.actions.append(SetTimer(TimerKind.FAN_OUT, step.step, 0.0))
    _begin_next(draft, step, block)


def _items(draft: Draft, source: bytes, made: int, batch: int) -> list[bytes]:
    """Return the items to make after `made` of them, or lists of `batch` of them (R12)."""
    start, count = made * batch, MAX_MADE_AT_ONCE * batch
    rows = referred(draft, source)
    if rows is not None:
        left = min(count, rows.count - start)
        parts = row_bytes(draft, replace(rows, start=start, count=left))
    else:
        parts = (elements(source) or [])[start : start + count]
    if batch == 1:
        return parts
    chunks = (parts[first : first + batch] for first in range(0, len(parts), batch))
    return [b"[" + b",".join(chunk) + b"]" for chunk in chunks]


def _begin_next(draft: Draft, step: StepState, block: BlockState) -> None:
    """Begin items for which there is room."""
    room = block.limit - (block.begun - block.ended)
    begin = min(room, block.made - block.begun)
    if begin <= 0:
        return
    places = _places(step, block, begin)
    if any(place not in draft.scopes for place in places):
        more = min(max(begin, _ASKED_FOR), block.made - block.begun)
        raise ViewTooNarrow(Wanted(scopes=frozenset(_places(step, block, more))))
    draft.put_block(replace(block, begun=block.begun + begin))
    for place in places:
        begin_scope(draft, draft.scope(place))


def _places(step: StepState, block: BlockState, count: int) -> list[Place]:
    """Return the next items to begin."""
    indexes = range(block.begun, block.begun + count)
    return [Place(inner_scope(step.scope, step.node, n), block.generation) for n in indexes]


def _end_all(draft: Draft, step: StepState, block: BlockState) -> None:
    if block.error is not None:
        fail_whole(draft, step, block.error)
    else:
        complete_whole(draft, step, reference(draft, block))


def _is_too_many(kind: ForEach, block: BlockState) -> bool:
    tolerance = kind.failures
    if tolerance.max_percent is not None:
        return block.failed * 100 > tolerance.max_percent * (block.total or 0)
    return block.failed > tolerance.max


def _items_failed(step: StepState, block: BlockState, index: int, error: NodeError) -> NodeError:
    message = (
        f"{block.failed} of {block.total} items failed, which is more than may;"
        f" item {index}: {error.code}: {error.message}"
    )
    return replace(error, code=ITEMS_FAILED, message=message, node=step.node)


def _limit(template: Template, values: Scope) -> int:
    number = json.loads(render(template, values))
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise _failure("a concurrency is a whole number from 1 on", template)
    return number


def _failure(message: str, template: Template) -> ExpressionFailed:
    return ExpressionFailed(ExpressionCode.TYPE, message, template.source)
