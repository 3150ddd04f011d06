"""BeginEffect: calls that are about to be made, each under a token of its worker (protocol p4)."""

from __future__ import annotations

import random

from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_machine.definition.outside import MAX_EFFECT_NAME, EffectKind
from perdure_machine.events import BeginEffect
from perdure_machine.replies import (
    EffectBegun,
    EffectSettled,
    EffectToLookUp,
    Reply,
    Stopping,
    Suspended,
)
from perdure_runtime.errors import (
    Aborted,
    FieldViolation,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)

from perdure_coordinator.answers import in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import error_message, parse_uuid

MAX_DIGEST = 64
"""Bytes of a request's digest."""


async def begin_effect(
    committers: Committers, request: pb.BeginEffectRequest
) -> pb.BeginEffectResponse:
    """Say of each call whether it may be made and answer in order."""
    wishes = [_wish(item) for item in request.items]
    answers = await in_time(committers.submit(*wish) for wish in wishes)
    return pb.BeginEffectResponse(results=map(_result, answers))


def _wish(item: pb.BeginEffectItem) -> Submission:
    lease = item.lease
    _check(item)
    event = BeginEffect(
        step=lease.step,
        fence=lease.fence,
        lease_id=parse_uuid(lease.lease_id, "items.lease.lease_id"),
        name=item.name,
        kind=_kind(item.kind),
        token=parse_uuid(item.token, "items.token"),
        call_for=item.call_ms / 1000,
        digest=item.request_digest,
        keep=item.keep_ms / 1000 if item.keep_ms > 0 else None,
        can_look_up=item.can_look_up,
        jitter=random.random(),
    )
    return parse_uuid(lease.run_id, "items.lease.run_id"), lease.org, event


def _check(item: pb.BeginEffectItem) -> None:
    if not 1 <= len(item.name) <= MAX_EFFECT_NAME or "/" in item.name or "\0" in item.name:
        problem = f"must have 1 to {MAX_EFFECT_NAME} characters, without / and NUL"
        raise _invalid("items.name", problem)
    if item.call_ms <= 0:
        raise _invalid("items.call_ms", "must be positive")
    if len(item.request_digest) > MAX_DIGEST:
        raise _invalid("items.request_digest", f"must have at most {MAX_DIGEST} bytes")


def _kind(text: str) -> EffectKind:
    if text not in (EffectKind.PROVIDER, EffectKind.RECONCILE, EffectKind.NONE):
        raise _invalid("items.kind", "is none of provider, reconcile, none")
    return EffectKind(text)


def _invalid(field: str, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"{field} {problem}",
        reason=Reason.FIELD_INVALID,
        violations=[FieldViolation(field, problem)],
    )


def _result(answer: Reply | PerdureError | None) -> pb.BeginEffectResult:
    match answer:
        case None | Unavailable() | Aborted():
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_AGAIN)
        case NotFound():
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_LOST)
        case PerdureError():
            refused = pb.BEGIN_EFFECT_STATUS_REFUSED
            return pb.BeginEffectResult(status=refused, error=error_message(answer))
        case EffectBegun(effect, lease_for):
            return pb.BeginEffectResult(
                status=pb.BEGIN_EFFECT_STATUS_BEGUN,
                key=effect.key,
                calls=effect.calls,
                lease_ms=int(lease_for * 1000),
            )
        case EffectSettled(key, result):
            settled = pb.BEGIN_EFFECT_STATUS_SETTLED
            return pb.BeginEffectResult(status=settled, key=key, result=result)
        case EffectToLookUp(key):
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_LOOK_UP, key=key)
        case Suspended(why):
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_SUSPENDED, why=why)
        case Stopping():
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_CANCELLED)
        case _:
            return pb.BeginEffectResult(status=pb.BEGIN_EFFECT_STATUS_LOST)
