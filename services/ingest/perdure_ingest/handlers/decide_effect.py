"""EffectService.DecideEffect."""

from __future__ import annotations

from perdure_contracts.internal.v1 import effects_pb2 as internal
from perdure_contracts.internal.v1.dispatch_pb2 import StepFailure
from perdure_contracts.v1.effect_service_pb2 import (
    DecideEffectRequest,
    DecideEffectResponse,
    FailEffect,
)
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check

GIVEN_UP = "EFFECT_GIVEN_UP"


async def decide_effect(
    doors: Doors, caller: Caller, request: DecideEffectRequest
) -> DecideEffectResponse:
    """Have a person's decision recorded, by which the step goes on."""
    fields = Check()
    item = internal.DecideEffectItem(
        org=caller.org,
        run_id=str(fields.run_id("run_id", request.run_id)),
        key=fields.text("key", request.key, longest=limits.MAX_EFFECT_KEY, required=True),
        actor=_actor(fields, caller, request.asked_by),
        reason=fields.text("reason", request.reason, longest=limits.MAX_REASON),
    )
    _set_decision(fields, item, request)
    fields.refuse()
    answer = await doors.coordinator.decide_effect(item)
    return DecideEffectResponse(changed=answer.changed)


def _actor(fields: Check, caller: Caller, asked_by: str) -> str:
    """Return who decides: whom the request names is a claim of who holds the key."""
    named = fields.text("asked_by", asked_by, longest=limits.MAX_NAME)
    return f"{named}, told by {caller.actor}" if named else caller.actor


def _set_decision(
    fields: Check, item: internal.DecideEffectItem, request: DecideEffectRequest
) -> None:
    match request.WhichOneof("decision"):
        case "settle":
            item.settled = fields.payload("settle", request.settle) or b"null"
        case "repeat":
            item.not_performed.although_key_expired = request.repeat.although_key_expired
            item.not_performed.SetInParent()
        case "fail":
            item.failed.CopyFrom(_failure(fields, request.fail))
        case _:
            fields.add("decision", "is required: settle, repeat or fail")


def _failure(fields: Check, asked: FailEffect) -> StepFailure:
    failure = StepFailure(
        code=fields.text("fail.code", asked.code, longest=limits.MAX_EFFECT_CODE) or GIVEN_UP,
        message=fields.text("fail.message", asked.message, longest=limits.MAX_REASON),
    )
    # The field's name is a keyword of Python.
    setattr(failure, "class", "permanent")
    return failure
