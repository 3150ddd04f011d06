"""`repeat`: pass after pass, each in a scope of its own, with values carried to the next."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perdure_runtime.backoff import growing

from perdure_machine.actions import ForgetScope, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.scope import scope_for
from perdure_machine.decide.wholes import begin_scope, complete_whole, fail_whole, new_scope
from perdure_machine.definition.model import Repeat
from perdure_machine.expressions import (
    Expression,
    ExpressionFailed,
    Scope,
    Template,
    evaluate_bool,
    evaluate_duration,
    render,
)
from perdure_machine.expressions.reads import CARRY, INDEX
from perdure_machine.node_error import ErrorClass, expression_error
from perdure_machine.payload import object_bytes
from perdure_machine.places import Place, inner_scope
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import BlockState, NodeError, ScopeState, StepState

LOOP_EXHAUSTED = "LOOP_EXHAUSTED"
"""The code of a `repeat` that had all its passes before its condition was met."""

_NOTHING = b"null"


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What a `repeat` begins with: the values of its first pass, and whether there is one."""

    carry: bytes
    wanted: bool


def first_pass(kind: Repeat, values: Scope) -> FirstPass:
    """Evaluate what a `repeat` begins with. Raises `ExpressionFailed`."""
    carry = object_bytes({name: render(one.init, values) for name, one in kind.carry.items()})
    return FirstPass(carry, _goes_on(kind, values, carry, 0))


def open_passes(draft: Draft, step: StepState, generation: int, first: FirstPass) -> None:
    """Begin the first pass."""
    kind = _kind(draft, step)
    block = draft.put_block(BlockState(step.step, generation, total=kind.max))
    if not first.wanted:
        _complete(draft, step, block, first.carry, _NOTHING)
        return
    new_scope(draft, step, generation, 0, carry=first.carry)
    _begin(draft, step, replace(block, made=1))


def begin_pass(draft: Draft, step: StepState) -> None:
    """Begin the pass whose time has come."""
    _begin(draft, step, draft.block(step))


def end_pass(draft: Draft, step: StepState, scope: ScopeState, output: bytes) -> None:
    """Decide what follows a pass that ended well. Raises `ViewTooNarrow`."""
    block = draft.put_block(replace(draft.block(step), ended=scope.index + 1))
    _forget(draft, step, scope.index)
    try:
        _follow(draft, step, block, scope, output)
    except ExpressionFailed as failure:
        fail_whole(draft, step, expression_error(failure, step.node))


def _forget(draft: Draft, step: StepState, index: int) -> None:
    """Let go of the pass that is one too many to keep, so that no loop grows for ever (F096)."""
    keep = _kind(draft, step).keep
    if keep is not None and index >= keep + 1:
        draft.actions.append(ForgetScope(inner_scope(step.scope, step.node, index - keep - 1)))


def _follow(
    draft: Draft, step: StepState, block: BlockState, scope: ScopeState, output: bytes
) -> None:
    kind, index = _kind(draft, step), scope.index + 1
    values = scope_for(draft, scope.place, _expressions(kind))
    carry = object_bytes({name: render(one.next, values) for name, one in kind.carry.items()})
    values = replace(values, loop={**values.loop, CARRY: carry})
    is_met = kind.until is not None and evaluate_bool(kind.until, values)
    if is_met or not _goes_on(kind, values, carry, index):
        _complete(draft, step, block, carry, output)
    elif index < kind.max:
        _next(draft, step, block, carry, _delay(kind, values, index))
    elif kind.exhausted_is_done:
        _complete(draft, step, block, carry, output)
    else:
        fail_whole(draft, step, _exhausted(step, kind))


def _next(draft: Draft, step: StepState, block: BlockState, carry: bytes, delay: float) -> None:
    new_scope(draft, step, block.generation, block.ended, carry=carry)
    block = draft.put_block(replace(block, made=block.ended + 1))
    if delay > 0:
        draft.actions.append(SetTimer(TimerKind.WAIT, step.step, delay))
        draft.record("pass_waits", step, passes=block.ended, seconds=delay)
    else:
        _begin(draft, step, block)


def _begin(draft: Draft, step: StepState, block: BlockState) -> None:
    place = Place(inner_scope(step.scope, step.node, block.begun), block.generation)
    scope = draft.scope(place)
    draft.put_block(replace(block, begun=block.begun + 1))
    draft.record("pass_began", step, index=scope.index)
    begin_scope(draft, scope)


def _complete(
    draft: Draft, step: StepState, block: BlockState, carry: bytes, output: bytes
) -> None:
    passes = str(block.ended).encode()
    complete_whole(draft, step, object_bytes({"passes": passes, "carry": carry, "last": output}))


def _goes_on(kind: Repeat, values: Scope, carry: bytes, index: int) -> bool:
    """Ask a `while` whether pass `index` is wanted; it sees that pass's values."""
    if kind.while_ is None:
        return True
    loop: Mapping[str, bytes] = {**values.loop, CARRY: carry, INDEX: str(index).encode()}
    return evaluate_bool(kind.while_, replace(values, loop=loop))


def _delay(kind: Repeat, values: Scope, passes: int) -> float:
    if kind.every is not None:
        return evaluate_duration(kind.every, values)
    rule = kind.backoff
    return growing(passes, rule.base, rule.factor, rule.cap) if rule is not None else 0.0


def _exhausted(step: StepState, kind: Repeat) -> NodeError:
    message = f"its condition was not met after {json.dumps(kind.max)} passes"
    return NodeError(ErrorClass.PERMANENT, LOOP_EXHAUSTED, message, node=step.node)


def _expressions(kind: Repeat) -> Iterable[Expression | Template | None]:
    return [kind.until, kind.while_, kind.every, *(one.next for one in kind.carry.values())]


def _kind(draft: Draft, step: StepState) -> Repeat:
    kind = draft.node(step).kind
    assert isinstance(kind, Repeat)
    return kind
