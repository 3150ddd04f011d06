"""SettleEffect: what became of calls and look-ups, also of those whose step was lost (p4)."""

from __future__ import annotations

import random

from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import (
    EFFECT_OUTCOME_ANSWERED,
    EFFECT_OUTCOME_NOT_PERFORMED,
    EFFECT_OUTCOME_PERFORMED,
    EFFECT_OUTCOME_UNKNOWN,
)
from perdure_machine.events import SettleEffect
from perdure_machine.payload import check_payload
from perdure_machine.replies import (
    EffectRefused,
    EffectSettled,
    EffectUnknown,
    Reply,
    Suspended,
)
from perdure_machine.states import EffectOutcome
from perdure_runtime.errors import (
    Aborted,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)

from perdure_coordinator.answers import in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import parse_uuid

MAX_RESULT = 1024 * 1024
"""Bytes of what a call came to."""

MAX_DEPTH = 100
"""Deepest nesting of what a call came to."""

_OUTCOMES = {
    EFFECT_OUTCOME_PERFORMED: EffectOutcome.PERFORMED,
    EFFECT_OUTCOME_NOT_PERFORMED: EffectOutcome.NOT_PERFORMED,
    EFFECT_OUTCOME_UNKNOWN: EffectOutcome.UNKNOWN,
    EFFECT_OUTCOME_ANSWERED: EffectOutcome.ANSWERED,
}


async def settle_effect(
    committers: Committers, request: pb.SettleEffectRequest
) -> pb.SettleEffectResponse:
    """Record what is told of each effect and answer in order what it is now."""
    told = [_told(item) for item in request.items]
    answers = await in_time(committers.submit(*one) for one in told)
    return pb.SettleEffectResponse(results=map(_result, answers))


def _told(item: pb.SettleEffectItem) -> Submission:
    outcome = _OUTCOMES.get(item.outcome)
    if outcome is None:
        raise InvalidArgument("items.outcome is not said", reason=Reason.FIELD_INVALID)
    event = SettleEffect(
        key=item.key,
        token=parse_uuid(item.token, "items.token"),
        outcome=outcome,
        result=checked_result(item.result, "items.result"),
        note=item.note,
        jitter=random.random(),
    )
    return parse_uuid(item.run_id, "items.run_id"), item.org, event


def checked_result(result: bytes, field: str) -> bytes:
    """Return what a call came to, `null` for nothing. Raises `InvalidArgument`."""
    if not result:
        return b"null"
    check_payload(result, field, MAX_RESULT, MAX_DEPTH)
    return result


def _result(answer: Reply | PerdureError | None) -> pb.SettleEffectResult:
    match answer:
        case None | Unavailable() | Aborted():
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_AGAIN)
        case EffectSettled(_, result):
            performed = pb.SETTLE_EFFECT_STATUS_PERFORMED
            return pb.SettleEffectResult(status=performed, result=result)
        case EffectRefused():
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_NOT_PERFORMED)
        case EffectUnknown():
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_UNKNOWN)
        case Suspended():
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_SUSPENDED)
        case PerdureError() if not isinstance(answer, NotFound):
            raise answer
        case _:
            return pb.SettleEffectResult(status=pb.SETTLE_EFFECT_STATUS_STALE)
