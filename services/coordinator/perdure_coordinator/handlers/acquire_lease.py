"""AcquireLease: steps for a worker, under lease ids of its own making (protocol p3)."""

from __future__ import annotations

from functools import partial

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ACQUIRE_STATUS_AGAIN,
    ACQUIRE_STATUS_GONE,
    ACQUIRE_STATUS_GRANTED,
    AcquireLeaseItem,
    AcquireLeaseRequest,
    AcquireLeaseResponse,
    AcquireLeaseResult,
)
from perdure_machine.events import Acquire
from perdure_machine.replies import Granted, Reply
from perdure_runtime.errors import Aborted, NotFound, PerdureError, Unavailable

from perdure_coordinator.answers import once_applied
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import grant_message, parse_uuid, parse_worker


async def acquire_lease(
    committers: Committers, request: AcquireLeaseRequest
) -> AcquireLeaseResponse:
    """Lease what can be leased and answer in order."""
    worker = parse_worker(request.worker)
    wishes = [_wish(item, worker) for item in request.items]
    answers = await once_applied(partial(_submit, committers, wish) for wish in wishes)
    return AcquireLeaseResponse(results=map(_result, answers))


def _wish(item: AcquireLeaseItem, worker: str) -> Submission:
    event = Acquire(item.step, parse_uuid(item.lease_id, "items.lease_id"), worker)
    return parse_uuid(item.run_id, "items.run_id"), item.org, event


async def _submit(committers: Committers, wish: Submission, patience: float) -> Reply:
    return await committers.submit(*wish, patience=patience)


def _result(answer: Reply | PerdureError | None) -> AcquireLeaseResult:
    match answer:
        case None | Unavailable() | Aborted():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_AGAIN)
        case Granted():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GRANTED, grant=grant_message(answer))
        case NotFound():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GONE)
        case PerdureError():
            raise answer
        case _:
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GONE)
