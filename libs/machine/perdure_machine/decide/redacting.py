"""What a decision on an erased run writes: everything but what somebody gave or was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure_machine.actions import (
    Action,
    PutBlock,
    PutEffect,
    PutRun,
    PutScope,
    PutStep,
    PutSubject,
    RecordAttempt,
    RecordDecision,
    RecordHistory,
    SetTimer,
    StoreSignal,
)
from perdure_machine.erasure import ERASED
from perdure_machine.node_error import ERASED_ERROR
from perdure_machine.replacing import replace
from perdure_machine.states import TimerKind
from perdure_machine.view import EffectState, NodeError, RunState, ScopeState, StepState

_TOLD = ("node", "worker", "seconds", "losses", "status", "limit")
"""Members of a history line that are the engine's own."""


def redacted(actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions with markers for payloads."""
    for action in actions:
        kept = _redacted(action)
        if kept is not None:
            yield kept


def _redacted(action: Action) -> Action | None:
    match action:
        case PutRun(run=run):
            return replace(action, run=_run(run))
        case PutStep(step=step):
            return replace(action, step=_step(step))
        case PutEffect(effect=effect):
            return replace(action, effect=_effect(effect))
        case RecordDecision():
            return replace(action, reason="")
        case RecordAttempt(error=error):
            return replace(action, error=_error(error))
        case PutScope(scope=scope):
            return replace(action, scope=_scope(scope))
        case PutBlock(block=block):
            return replace(action, block=replace(block, error=_error(block.error)))
        case RecordHistory(details=details):
            told = {name: value for name, value in details.items() if name in _TOLD}
            return replace(action, details=told)
        case StoreSignal(signal=signal):
            return replace(action, signal=replace(signal, data=ERASED))
        case SetTimer(kind=TimerKind.EMIT) | PutSubject():
            return None
        case _:
            return action


def _run(run: RunState) -> RunState:
    return replace(run, output=_bytes(run.output), error=_error(run.error))


def _step(step: StepState) -> StepState:
    return replace(
        step, input=_bytes(step.input), output=_bytes(step.output), error=_error(step.error)
    )


def _scope(scope: ScopeState) -> ScopeState:
    return replace(
        scope,
        item=_bytes(scope.item),
        carry=_bytes(scope.carry),
        output=_bytes(scope.output),
        error=_error(scope.error),
    )


def _effect(effect: EffectState) -> EffectState:
    """Return the effect without what it was made of, and came to: the fact stays."""
    call = effect.call
    if call is None:
        return effect
    return replace(effect, call=replace(call, digest=b"", result=_bytes(call.result), note=""))


def _bytes(payload: bytes | None) -> bytes | None:
    return None if payload is None else ERASED


def _error(error: NodeError | None) -> NodeError | None:
    return None if error is None else replace(ERASED_ERROR, node=error.node)
