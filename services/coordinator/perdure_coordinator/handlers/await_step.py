"""AwaitStep: a worker with nothing to do offers to take the first step of a run that is started."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from perdure_contracts.internal.v1.offers_pb2 import AwaitStepRequest, AwaitStepResponse
from perdure_runtime.clock import Clock
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason, Unavailable
from perdure_runtime.metrics import gauge

from perdure_coordinator.messages import parse_uuid, parse_worker
from perdure_coordinator.offers import Offer, Offers

MAX_QUEUES = 256
MAX_WAIT_MS = 10_000

OFFERS = gauge("coordinator_offers", "Offers of workers that are not answered yet.")


@dataclass(frozen=True, slots=True)
class Awaiting:
    """What the call needs; when `draining` is set nobody waits any more."""

    offers: Offers
    clock: Clock
    draining: asyncio.Event


async def await_step(awaiting: Awaiting, request: AwaitStepRequest) -> AwaitStepResponse:
    """Wait for a step and answer with it, or with nothing when none came in time."""
    offer = _offer(request, awaiting.clock.monotonic())
    if awaiting.draining.is_set():
        raise Unavailable("the coordinator takes no offers any more", reason=Reason.DRAINING)
    awaiting.offers.put(offer)
    ending = asyncio.create_task(awaiting.draining.wait())
    OFFERS.inc()
    try:
        await asyncio.wait(
            (offer.answer, ending),
            timeout=request.wait_ms / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if awaiting.offers.withdraw(offer):
            return AwaitStepResponse()
        return await offer.answer
    finally:
        # Also when the call is cancelled: who has taken the offer then finds that nobody waits.
        awaiting.offers.withdraw(offer)
        offer.answer.cancel()
        ending.cancel()
        OFFERS.dec()


def _offer(request: AwaitStepRequest, now: float) -> Offer:
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
    return Offer(worker, request.queues, lease_id, now)
