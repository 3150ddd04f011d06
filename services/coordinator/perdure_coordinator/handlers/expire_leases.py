"""ExpireLeases: leases that ran out; the write checks each again (R6)."""

from __future__ import annotations

import random

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ExpiredLease,
    ExpireLeasesRequest,
    ExpireLeasesResponse,
)
from perdure_machine.events import ExpireLease
from perdure_machine.replies import Reply

from perdure_coordinator.answers import in_time, item_status
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import parse_uuid


async def expire_leases(
    committers: Committers, request: ExpireLeasesRequest
) -> ExpireLeasesResponse:
    """Take the leases away and answer in order."""
    answers = await in_time(_submit(committers, expired) for expired in request.leases)
    return ExpireLeasesResponse(results=map(item_status, answers))


async def _submit(committers: Committers, expired: ExpiredLease) -> Reply:
    lease = expired.lease
    event = ExpireLease(
        step=lease.step,
        fence=lease.fence,
        lease_id=parse_uuid(lease.lease_id, "leases.lease.lease_id"),
        timed_out=expired.timed_out,
        jitter=random.random(),
    )
    return await committers.submit(
        parse_uuid(lease.run_id, "leases.lease.run_id"), lease.org, event
    )
