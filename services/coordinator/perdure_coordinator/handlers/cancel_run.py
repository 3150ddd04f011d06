"""CancelRun: closes runs at once."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    CancelRunItem,
    CancelRunRequest,
    CancelRunResponse,
    CancelRunResult,
)
from perdure_machine.events import CancelRun
from perdure_machine.replies import Cancelled, Reply
from perdure_runtime.errors import PerdureError

from perdure_coordinator.answers import in_time
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import command_refusal, error_message, parse_uuid


async def cancel_run(committers: Committers, request: CancelRunRequest) -> CancelRunResponse:
    """Cancel the runs and answer in order."""
    answers = await in_time(_submit(committers, item) for item in request.items)
    return CancelRunResponse(results=map(_result, answers))


async def _submit(committers: Committers, item: CancelRunItem) -> Reply:
    run_id = parse_uuid(item.run_id, "run_id")
    return await committers.submit(run_id, item.org, CancelRun(item.reason, item.actor))


def _result(answer: Reply | PerdureError | None) -> CancelRunResult:
    match answer:
        case Cancelled(changed):
            return CancelRunResult(changed=changed)
        case _:
            return CancelRunResult(error=error_message(command_refusal(answer)))
