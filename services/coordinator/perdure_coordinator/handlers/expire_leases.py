"""ExpireLeases: leases that ran out; the write checks each again (R6)."""

from __future__ import annotations

import random

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ExpireLeasesRequest,
    ExpireLeasesResponse,
)
from perdure_contracts.internal.v1.dispatch_pb2 import ExpiredLease
from perdure_machine.events import ExpireLease
from perdure_machine.replies import Reply

from perdure_coordinator.answers import found_status, in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.handlers.renew_lease import Renewals
from perdure_coordinator.messages import parse_uuid
from perdure_coordinator.telling import Telling


async def expire_leases(
    committers: Committers, renewals: Renewals, telling: Telling, request: ExpireLeasesRequest
) -> ExpireLeasesResponse:
    """Take the leases away and answer in order; without any, only if they could be renewed."""
    if not request.leases:
        await renewals.submit([])
    expiries = [_expiry(expired) for expired in request.leases]
    answers = await in_time(_expire(committers, telling, expiry) for expiry in expiries)
    return ExpireLeasesResponse(results=map(found_status, answers))


async def _expire(committers: Committers, telling: Telling, expiry: Submission) -> Reply:
    reply = await committers.submit(*expiry)
    telling.note(expiry[1], reply)
    return reply


def _expiry(expired: ExpiredLease) -> Submission:
    lease = expired.lease
    event = ExpireLease(
        step=lease.step,
        fence=lease.fence,
        lease_id=parse_uuid(lease.lease_id, "leases.lease.lease_id"),
        timed_out=expired.timed_out,
        jitter=random.random(),
    )
    return parse_uuid(lease.run_id, "leases.lease.run_id"), lease.org, event
