"""ExpireRuns: runs past their age limit."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ExpireRunsRequest,
    ExpireRunsResponse,
    RunRef,
)
from perdure_machine.events import ExpireRun
from perdure_machine.replies import Reply

from perdure_coordinator.answers import in_time, item_status
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import parse_uuid


async def expire_runs(committers: Committers, request: ExpireRunsRequest) -> ExpireRunsResponse:
    """Close the runs and answer in order."""
    answers = await in_time(_submit(committers, run) for run in request.runs)
    return ExpireRunsResponse(results=map(item_status, answers))


async def _submit(committers: Committers, run: RunRef) -> Reply:
    run_id = parse_uuid(run.run_id, "runs.run_id")
    return await committers.submit(run_id, run.org, ExpireRun())
