"""The course of a call that is recorded by itself, just before it is made (protocol p4).

BeginEffect says whether to call, to take what an earlier call came to, or to look that up first.
What the call comes to is told by the step's report; what a look-up finds, by SettleEffect.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import EffectOutcome, StepGrant
from perdure_runtime.errors import PerdureError, clean_text

from perdure_worker.coordinator import Answered
from perdure_worker.effect_calls import EffectCalls, why_refused
from perdure_worker.executors.account import hidden_in
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Completed, Dropped, Effect, ErrorClass, Failed, Outcome

OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
MAX_NOTE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about a call. `answer` is what a look-up was given, as the output of a
    call would be, for the definition to read; `note` is for people. `refusal` is that of a look-up
    whose credentials were refused.
    """

    outcome: EffectOutcome.ValueType
    answer: bytes = b""
    note: str = ""
    refusal: Failed | None = None


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call of an executor: how to make it, and how to find out what became of an earlier one.

    Both take until when they may last, an instant of the monotonic clock: `total` seconds, where
    the try has no deadline. `digest` gives that of what the call asks for.
    """

    grant: StepGrant
    context: TryContext
    total: float
    digest: Callable[[], bytes]
    call: Callable[[float], Awaitable[Outcome]]
    look_up: Callable[[float], Awaitable[Finding]]

    @property
    def deadline(self) -> float:
        """Until when the call may last if it is made now."""
        return self.context.until(self.total)


async def run_call(effects: EffectCalls, begun: OutsideCall) -> Outcome:
    """Make the call, begun by itself where it has to be; tell how the try ended."""
    if not begun.grant.effect.begin_first:
        return await begun.call(begun.deadline)
    while True:
        item = _item(begun)
        answered = await effects.begin(item)
        if answered is None:
            return Dropped("nobody said whether the call may be made")
        if isinstance(answered.answer, PerdureError):
            return _refused(answered.answer.reason, answered.answer.message)
        outcome = await _go_on(effects, begun, item, answered.answer, _end(answered))
        if outcome is not None:
            return outcome


async def _go_on(
    effects: EffectCalls,
    begun: OutsideCall,
    item: pb.BeginEffectItem,
    result: pb.BeginEffectResult,
    end: float,
) -> Outcome | None:
    """Do what the answer says; None to begin anew."""
    match result.status:
        case pb.BEGIN_EFFECT_STATUS_BEGUN:
            return await _call(effects, begun, item, end)
        case pb.BEGIN_EFFECT_STATUS_LOOK_UP:
            return await _look_up(effects, begun, item)
        case pb.BEGIN_EFFECT_STATUS_SETTLED:
            return _known(result.result if result.HasField("result") else None)
        case pb.BEGIN_EFFECT_STATUS_CANCELLED:
            return _not_made(
                ErrorClass.RETRYABLE, "CANCELLED", "the run is to end: no call is made"
            )
        case pb.BEGIN_EFFECT_STATUS_REFUSED:
            return _refused(*why_refused(result))
        case _:
            return Dropped(result.why or "the step is not this worker's any more")


async def _call(
    effects: EffectCalls, begun: OutsideCall, item: pb.BeginEffectItem, end: float
) -> Outcome | None:
    # It must be over within its lease: after that another may find nothing done, and call.
    deadline = begun.deadline
    if deadline > end:
        late = Finding(dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED, note="it was too late")
        await effects.settle(_settling(begun, item, late))
        return None
    begun.context.open_calls.add(item.token)
    try:
        return await begun.call(deadline)
    finally:
        begun.context.open_calls.discard(item.token)


async def _look_up(
    effects: EffectCalls, begun: OutsideCall, item: pb.BeginEffectItem
) -> Outcome | None:
    try:
        found = await begun.look_up(begun.deadline)
    except asyncio.CancelledError:
        stopped = Finding(dispatch_pb2.EFFECT_OUTCOME_UNKNOWN, note="the look-up was stopped")
        effects.tell(_settling(begun, item, stopped))
        raise
    if found.refusal is not None and begun.grant.connection.name:
        # The step waits until somebody reconnects it, and is looked up then.
        return replace(found.refusal, effect=Effect.UNKNOWN)
    return _concluded(await effects.settle(_settling(begun, item, found)), found.note)


def nothing_told(note: str, failure: Failed | None = None) -> Finding:
    """Return what is found out by a look-up that tells nothing, or that failed so."""
    is_refused = failure is not None and failure.error_class is ErrorClass.AUTHORISATION
    refusal = failure if is_refused else None
    return Finding(dispatch_pb2.EFFECT_OUTCOME_UNKNOWN, note=note, refusal=refusal)


def _concluded(told: Answered[pb.SettleEffectResult] | None, note: str) -> Outcome | None:
    if told is None:
        return Dropped("nobody took what the look-up found")
    if isinstance(told.answer, PerdureError):
        return Failed(
            ErrorClass.PERMANENT, told.answer.reason, told.answer.message, effect=Effect.UNKNOWN
        )
    match told.answer.status:
        case pb.SETTLE_EFFECT_STATUS_PERFORMED:
            return _known(told.answer.result if told.answer.HasField("result") else None)
        case pb.SETTLE_EFFECT_STATUS_NOT_PERFORMED:
            return None
        case pb.SETTLE_EFFECT_STATUS_UNKNOWN:
            return Failed(ErrorClass.RETRYABLE, OUTCOME_UNKNOWN, note, effect=Effect.UNKNOWN)
        case _:
            return Dropped("the step goes on without this try")


def _known(result: bytes | None) -> Outcome:
    if result is not None:
        return Completed(result, Effect.PERFORMED)
    return Failed(
        ErrorClass.PERMANENT,
        OUTCOME_UNKNOWN,
        "the call was performed, and nobody knows what it came to",
        effect=Effect.PERFORMED,
    )


def _refused(code: str, message: str) -> Failed:
    return _not_made(ErrorClass.PERMANENT, code, message)


def _not_made(error_class: ErrorClass, code: str, message: str) -> Failed:
    return Failed(error_class, code, message, effect=Effect.NOT_PERFORMED)


def _end(answered: Answered[pb.BeginEffectResult]) -> float:
    assert not isinstance(answered.answer, PerdureError)
    return answered.sent_at + answered.answer.lease_ms / 1000


def _item(begun: OutsideCall) -> pb.BeginEffectItem:
    effect, left = begun.grant.effect, begun.deadline - time.monotonic()
    return pb.BeginEffectItem(
        lease=begun.grant.lease,
        name=effect.name,
        kind=effect.kind,
        token=str(uuid.uuid4()),
        call_ms=max(1, math.ceil(left * 1000)),
        request_digest=begun.digest(),
        keep_ms=effect.keep_ms,
        can_look_up=effect.can_look_up,
    )


def _settling(begun: OutsideCall, item: pb.BeginEffectItem, found: Finding) -> pb.SettleEffectItem:
    note = hidden_in(found.note, begun.grant.connection)
    return pb.SettleEffectItem(
        org=item.lease.org,
        run_id=item.lease.run_id,
        key=begun.grant.effect.key,
        token=item.token,
        outcome=found.outcome,
        result=found.answer,
        note=clean_text(note, limit=MAX_NOTE_CHARACTERS),
    )
