"""DeliverSignals: what was stored for runs and never told to them."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    DeliverSignalsRequest,
    DeliverSignalsResponse,
    UndeliveredSignals,
)
from perdure_machine.events import DeliverSignals

from perdure_coordinator.answers import found_status, in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import parse_uuid


async def deliver_signals(
    committers: Committers, request: DeliverSignalsRequest
) -> DeliverSignalsResponse:
    """Tell the runs and answer in order."""
    deliveries = [_delivery(item) for item in request.items]
    answers = await in_time(committers.submit(*delivery) for delivery in deliveries)
    return DeliverSignalsResponse(results=map(found_status, answers))


def _delivery(item: UndeliveredSignals) -> Submission:
    return parse_uuid(item.run_id, "items.run_id"), item.org, DeliverSignals(item.name)
