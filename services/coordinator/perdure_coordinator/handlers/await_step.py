"""AwaitStep: a worker with nothing to do offers to take the first step of a run that is started."""

from __future__ import annotations

import asyncio

from perdure_contracts.internal.v1.offers_pb2 import AwaitStepRequest, AwaitStepResponse
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_runtime.metrics import gauge

from perdure_coordinator.messages import parse_uuid, parse_worker
from perdure_coordinator.offers import Offer, Offers

MAX_QUEUES = 256
MAX_WAIT_MS = 10_000

OFFERS = gauge("coordinator_offers", "Offers of workers that are not answered yet.")


async def await_step(offers: Offers, request: AwaitStepRequest) -> AwaitStepResponse:
    """Wait for a step and answer with it, or with nothing when none came in time."""
    offer = _offer(request)
    offers.put(offer)
    # It may be taken just then: the answer is waited for, but it is taken no more.
    alarm = asyncio.get_running_loop().call_later(request.wait_ms / 1000, offers.end, offer)
    OFFERS.inc()
    try:
        return await offer.answer
    finally:
        # Also when the call is cancelled: who has taken the offer then finds that nobody waits.
        alarm.cancel()
        offers.withdraw(offer)
        OFFERS.dec()


def _offer(request: AwaitStepRequest) -> Offer:
    problems = []
    if not 1 <= len(request.queues) <= MAX_QUEUES:
        problems.append(FieldViolation("queues", f"must be 1 to {MAX_QUEUES}"))
    if not 1 <= request.wait_ms <= MAX_WAIT_MS:
        problems.append(FieldViolation("wait_ms", f"must be 1 to {MAX_WAIT_MS}"))
    if problems:
        raise InvalidArgument(
            "an offer that cannot be kept", reason=Reason.FIELD_INVALID, violations=problems
        )
    worker, lease_id = parse_worker(request.worker), parse_uuid(request.lease_id, "lease_id")
    return Offer(worker, request.queues, lease_id)
