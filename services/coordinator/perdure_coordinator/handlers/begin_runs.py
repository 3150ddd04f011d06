"""BeginRuns: runs that wait for an exclusive key which nobody has."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    BeginRunsRequest,
    BeginRunsResponse,
    RunRef,
)
from perdure_machine.events import BeginRun

from perdure_coordinator.answers import found_status, in_time
from perdure_coordinator.committers import Committers, Submission
from perdure_coordinator.messages import parse_uuid


async def begin_runs(committers: Committers, request: BeginRunsRequest) -> BeginRunsResponse:
    """Have the runs look whether they may begin, and answer in order."""
    wishes = [_wish(run) for run in request.runs]
    answers = await in_time(committers.submit(*wish) for wish in wishes)
    return BeginRunsResponse(results=map(found_status, answers))


def _wish(run: RunRef) -> Submission:
    return parse_uuid(run.run_id, "runs.run_id"), run.org, BeginRun()
