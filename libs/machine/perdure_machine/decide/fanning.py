"""`for_each`: a scope for each item, so many at once; the counters tell when all have ended.

Items are rows from the start, made some at a time, so that no event takes longer for a longer list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.rows import reference, referred, row_bytes
from perdure_machine.decide.wholes import (
    begin_scope,
    complete_whole,
    fail_whole,
    new_page,
    new_scope,
)
from perdure_machine.definition.model import ForEach
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    Scope,
    Template,
    render,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.payload import cut, elements
from perdure_machine.places import Place, inner_scope
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import BlockState, NodeError, ScopeState, StepState, ViewTooNarrow, Wanted

MAX_MADE_AT_ONCE = 500
"""Items that one event makes the rows of (protocol p5)."""

MAX_ITEMS = 1_000_000
MAX_PAGE = 1_000
"""Items that a source may answer at once."""

_NO_CURSOR = b"null"
DEFAULT_CONCURRENCY = 100
"""Items of one `for_each` that run at once where the definition does not say."""

_ASKED_FOR = 100
"""Items to ask for at once, because inline ones end in the event that begins them."""

ITEMS_FAILED = "ITEMS_FAILED"
"""The code of a `for_each` of which more items failed than it tolerates."""


@dataclass(frozen=True, slots=True)
class Fan:
    """What a `for_each` begins with: a list or what stands for rows, how many, how many at once.

    Both are None where the items come page by page.
    """

    source: bytes | None
    total: int | None
    limit: int

    @property
    def is_kept(self) -> bool:
        """Whether the source is to be kept, because not all rows are made with the step."""
        return self.total is not None and self.total > MAX_MADE_AT_ONCE


def fan_of(draft: Draft, kind: ForEach, values: Scope) -> Fan:
    """Evaluate what a `for_each` begins with. Raises `ExpressionFailed`."""
    limit = DEFAULT_CONCURRENCY if kind.concurrency is None else _limit(kind.concurrency, values)
    if kind.items is None:
        return Fan(None, None, limit)
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
    return Fan(source, -(-count // kind.batch), limit)


def open_items(draft: Draft, step: StepState, generation: int, fan: Fan) -> None:
    """Make the first items and begin as many as may run. Raises `ViewTooNarrow`."""
    block = draft.put_block(BlockState(step.step, generation, total=fan.total, limit=fan.limit))
    if fan.source is None:
        draft.record("pages_began", step, at_once=fan.limit)
        begin_scope(draft, new_page(draft, step, generation, 0, _NO_CURSOR))
        return
    draft.record("items_began", step, items=fan.total or 0, at_once=fan.limit)
    if fan.total == 0:
        complete_whole(draft, step, reference(draft, block))
    else:
        _make(draft, step, block, fan.source)


def end_page(draft: Draft, step: StepState, page: ScopeState, answer: bytes) -> NodeError | None:
    """Take over the items of a page, and ask for the next; return why the step is to fail."""
    kind, block = draft.node(step).kind, draft.block(step)
    assert isinstance(kind, ForEach)
    items = elements(cut(answer, ("items",)) or b"")
    if items is None or len(items) > MAX_PAGE or block.made + len(items) > MAX_ITEMS:
        return _bad_page(step, items)
    cursor = cut(answer, ("next",)) or _NO_CURSOR
    is_last = cursor.strip() == _NO_CURSOR
    block = _add(draft, step, block, batched(items, kind.batch))
    if not is_last:
        index = page.index + 1
        begin_scope(draft, new_page(draft, step, block.generation, index, cursor))
        _begin_next(draft, step, block)
        return None
    return _know_all(draft, step, kind, replace(block, total=block.made))


def _know_all(draft: Draft, step: StepState, kind: ForEach, block: BlockState) -> NodeError | None:
    """Go on once the last page has told how many items there are: now a percentage counts."""
    if block.error is None and _is_too_many(kind, block):
        block = replace(block, error=_too_many(step, block))
    draft.put_block(block)
    if block.ended == block.total:
        _end_all(draft, step, block)
    elif block.error is not None and kind.failures.stop:
        return block.error
    else:
        _begin_next(draft, step, block)
    return None


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


def batched(items: list[bytes], size: int) -> list[bytes]:
    """Return the items, or lists of `size` of them (R12)."""
    if size == 1:
        return items
    chunks = (items[start : start + size] for start in range(0, len(items), size))
    return [b"[" + b",".join(chunk) + b"]" for chunk in chunks]


def _add(draft: Draft, step: StepState, block: BlockState, items: list[bytes]) -> BlockState:
    for offset, item in enumerate(items):
        new_scope(draft, step, block.generation, block.made + offset, item=item)
    return draft.put_block(replace(block, made=block.made + len(items)))


def _make(draft: Draft, step: StepState, block: BlockState, source: bytes) -> None:
    kind = draft.node(step).kind
    assert isinstance(kind, ForEach)
    block = _add(draft, step, block, _items(draft, source, block.made, kind.batch))
    assert block.total is not None
    if block.made < block.total:
        draft.actions.append(SetTimer(TimerKind.FAN_OUT, step.step, 0.0))
    _begin_next(draft, step, block)


def _items(draft: Draft, source: bytes, made: int, batch: int) -> list[bytes]:
    """Return the items to make after `made` of them, or lists of `batch` of them."""
    start, count = made * batch, MAX_MADE_AT_ONCE * batch
    rows = referred(draft, source)
    if rows is not None:
        left = min(count, rows.count - start)
        parts = row_bytes(draft, replace(rows, start=start, count=left))
    else:
        parts = (elements(source) or [])[start : start + count]
    return batched(parts, batch)


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
        if block.total is None:
            return False  # told by the last page
        return block.failed * 100 > tolerance.max_percent * block.total
    return block.failed > tolerance.max


def _too_many(step: StepState, block: BlockState) -> NodeError:
    of_all = block.total if block.total is not None else f"the first {block.made}"
    message = f"{block.failed} of {of_all} items failed, which is more than may"
    return NodeError(ErrorClass.PERMANENT, ITEMS_FAILED, message, node=step.node)


def _items_failed(step: StepState, block: BlockState, index: int, error: NodeError) -> NodeError:
    """Return the error of the item that was one too many, which still tells what it was."""
    message = f"{_too_many(step, block).message}; item {index}: {error.code}: {error.message}"
    return replace(error, code=ITEMS_FAILED, message=message, node=step.node)


def _bad_page(step: StepState, items: list[bytes] | None) -> NodeError:
    if items is None:
        message = "the source answered no object with a list of `items`"
    else:
        message = f"the source answered {len(items)} items; a page has at most {MAX_PAGE}, all"
        message += f" together {MAX_ITEMS}"
    return NodeError(ErrorClass.PERMANENT, "SOURCE_INVALID", message, node=step.node)


def _limit(template: Template, values: Scope) -> int:
    number = json.loads(render(template, values))
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise _failure("a concurrency is a whole number from 1 on", template)
    return number


def _failure(message: str, template: Template) -> ExpressionFailed:
    return ExpressionFailed(ExpressionCode.TYPE, message, template.source)
