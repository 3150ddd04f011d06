"""JobService.CancelJob and ReplayJob: commands to the run that a job is."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    CancelRunItem,
    CommandRunItem,
    RunCommand,
)
from perdure_contracts.v1.job_service_pb2 import (
    CancelJobRequest,
    CancelJobResponse,
    ReplayJobRequest,
    ReplayJobResponse,
)
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.jobs import job_exists

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.refusals import job_not_found
from perdure_ingest.validation import Check


class _Request(Protocol):
    job_id: str
    reason: str


async def cancel_job(doors: Doors, caller: Caller, request: CancelJobRequest) -> CancelJobResponse:
    """Cancel a job; one that is cancelled already stays as it is."""
    job_id, reason = await _known(doors, caller, request)
    item = CancelRunItem(org=caller.org, run_id=str(job_id), reason=reason, actor=caller.actor)
    return CancelJobResponse(changed=(await doors.coordinator.cancel_run(item)).changed)


async def replay_job(doors: Doors, caller: Caller, request: ReplayJobRequest) -> ReplayJobResponse:
    """Try a failed job again."""
    job_id, reason = await _known(doors, caller, request)
    item = CommandRunItem(
        org=caller.org,
        run_id=str(job_id),
        command=RunCommand.RUN_COMMAND_RETRY,
        reason=reason,
        actor=caller.actor,
    )
    return ReplayJobResponse(changed=(await doors.coordinator.command_run(item)).changed)


async def _known(doors: Doors, caller: Caller, request: _Request) -> tuple[UUID, str]:
    """Return the id and the reason of a request for a job that there is."""
    fields = Check()
    job_id = fields.run_id("job_id", request.job_id)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    async with reading(doors.pool, caller.org) as connection:
        if not await job_exists(connection, caller.org, job_id):
            raise job_not_found(job_id)
    return job_id, reason
