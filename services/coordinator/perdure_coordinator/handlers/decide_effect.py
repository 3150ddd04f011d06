"""DecideEffect: what people have found out about effects that nobody else can settle (p4, p8)."""

from __future__ import annotations

from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepFailure
from perdure_machine.events import DecideEffect, GivenUp, NotPerformed, Performed
from perdure_machine.node_error import ErrorClass, reported_error
from perdure_machine.replies import Done, Reply
from perdure_machine.view import NodeError
from perdure_runtime.errors import InvalidArgument, PerdureError, Reason, clean_text

from perdure_coordinator.answers import in_time
from perdure_coordinator.committers import Committers
from perdure_coordinator.handlers.settle_effect import checked_result
from perdure_coordinator.messages import command_refusal, error_message, parse_uuid

MAX_ACTOR = 200
"""Characters of who decides."""

UNRESOLVED = "OUTCOME_UNKNOWN"
"""The code of a step whose call was given up, where the person says no other."""


async def decide_effect(
    committers: Committers, request: pb.DecideEffectRequest
) -> pb.DecideEffectResponse:
    """Apply each decision and answer in order."""
    answers = await in_time(_submit(committers, item) for item in request.items)
    return pb.DecideEffectResponse(results=map(_result, answers))


async def _submit(committers: Committers, item: pb.DecideEffectItem) -> Reply:
    run_id = parse_uuid(item.run_id, "items.run_id")
    if not 1 <= len(item.actor) <= MAX_ACTOR:
        problem = f"items.actor must have 1 to {MAX_ACTOR} characters"
        raise InvalidArgument(problem, reason=Reason.FIELD_INVALID)
    event = DecideEffect(item.key, _decision(item), clean_text(item.actor), clean_text(item.reason))
    return await committers.submit(run_id, item.org, event)


def _decision(item: pb.DecideEffectItem) -> Performed | NotPerformed | GivenUp:
    match item.WhichOneof("decision"):
        case "settled":
            return Performed(checked_result(item.settled, "items.settled"))
        case "not_performed":
            return NotPerformed(item.not_performed.although_key_expired)
        case "failed":
            return GivenUp(_error(item.failed))
        case _:
            raise InvalidArgument("items.decision is not said", reason=Reason.FIELD_INVALID)


def _error(failure: StepFailure) -> NodeError:
    return reported_error(
        getattr(failure, "class") or ErrorClass.PERMANENT,
        failure.code or UNRESOLVED,
        failure.message or "nobody knows whether the call was performed",
        failure.details or None,
    )


def _result(answer: Reply | PerdureError | None) -> pb.DecideEffectResult:
    match answer:
        case Done(changed):
            return pb.DecideEffectResult(changed=changed)
        case _:
            return pb.DecideEffectResult(error=error_message(command_refusal(answer)))
