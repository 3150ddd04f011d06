"""ExpireRuns: runs past their age limit."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ExpireRunsRequest,
    ExpireRunsResponse,
    RunRef,
)
from perdure_machine.events import ExpireRun

from perdure_coordinator.answers import found_status, in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import parse_uuid


async def expire_runs(committers: Committers, request: ExpireRunsRequest) -> ExpireRunsResponse:
    """Close the runs and answer in order."""
    expiries = [_expiry(run) for run in request.runs]
    answers = await in_time(committers.submit(*expiry) for expiry in expiries)
    return ExpireRunsResponse(results=map(found_status, answers))


def _expiry(run: RunRef) -> Submission:
    return parse_uuid(run.run_id, "runs.run_id"), run.org, ExpireRun()
