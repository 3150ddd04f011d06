"""AcquireLease: steps for a worker, under lease ids of its own making (protocol p3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ACQUIRE_STATUS_AGAIN,
    ACQUIRE_STATUS_BLOCKED,
    ACQUIRE_STATUS_GONE,
    ACQUIRE_STATUS_GRANTED,
    AcquireLeaseItem,
    AcquireLeaseRequest,
    AcquireLeaseResponse,
    AcquireLeaseResult,
)
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_machine.events import Acquire
from perdure_machine.replies import Blocked, Gone, Granted, Reply
from perdure_runtime.errors import Aborted, NotFound, PerdureError, Unavailable

from perdure_coordinator.answers import once_applied
from perdure_coordinator.committers import Committers, Prepared, Submission
from perdure_coordinator.grants import Grants
from perdure_coordinator.messages import parse_uuid, parse_worker

Answer = Reply | StepGrant


async def acquire_lease(
    committers: Committers, grants: Grants, request: AcquireLeaseRequest
) -> AcquireLeaseResponse:
    """Lease what can be leased and answer in order."""
    worker = parse_worker(request.worker)
    wishes = [_wish(item, worker) for item in request.items]
    plain = await committers.submit_plain(wishes)
    answers: Sequence[Answer | Prepared | PerdureError | None] = await once_applied(
        plain,
        (partial(_acquire, committers, grants, wish) for wish in wishes),
    )
    return AcquireLeaseResponse(results=map(_result, answers))


async def _acquire(
    committers: Committers, grants: Grants, wish: Submission, patience: float
) -> Answer:
    reply = await committers.submit(*wish, patience=patience)
    if isinstance(reply, Granted):
        return await grants.message(reply) or Gone()
    return reply


def _wish(item: AcquireLeaseItem, worker: str) -> Submission:
    lease_id = parse_uuid(item.lease_id, "items.lease_id")
    taker = parse_worker(item.worker) if item.worker else worker
    event = Acquire(item.step, lease_id, taker, item.capacity)
    return parse_uuid(item.run_id, "items.run_id"), item.org, event


def _result(answer: Answer | Prepared | PerdureError | None) -> AcquireLeaseResult:
    match answer:
        case Prepared(message=AcquireLeaseResult() as result):
            return result
        case None | Unavailable() | Aborted():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_AGAIN)
        case StepGrant():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GRANTED, grant=answer)
        case Blocked():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_BLOCKED)
        case NotFound():
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GONE)
        case PerdureError():
            raise answer
        case _:
            return AcquireLeaseResult(status=ACQUIRE_STATUS_GONE)
