"""ReleaseLease: steps handed back, counted neither as failures nor as losses."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ReleaseLeaseRequest,
    ReleaseLeaseResponse,
)
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_machine.events import Release

from perdure_coordinator.answers import in_time, item_status
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import parse_uuid


async def release_lease(
    committers: Committers, request: ReleaseLeaseRequest
) -> ReleaseLeaseResponse:
    """Take the steps back and answer in order."""
    releases = [_release(lease) for lease in request.leases]
    answers = await in_time(committers.submit(*release) for release in releases)
    return ReleaseLeaseResponse(results=map(item_status, answers))


def _release(lease: StepLease) -> Submission:
    event = Release(lease.step, lease.fence, parse_uuid(lease.lease_id, "leases.lease_id"))
    return parse_uuid(lease.run_id, "leases.run_id"), lease.org, event
