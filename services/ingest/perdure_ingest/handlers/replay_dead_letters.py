"""DeadLetterService.ReplayDeadLetters."""

from __future__ import annotations

from perdure_contracts.internal.v1 import control_service_pb2
from perdure_contracts.v1.dead_letter_service_pb2 import (
    ReplayDeadLettersRequest,
    ReplayDeadLettersResponse,
)
from perdure_contracts.v1.job_service_pb2 import ReplayDeadJobsRequest
from perdure_runtime.gate.identity import Caller
from perdure_store.dead_letters import DeadLetterFilter

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.list_dead_letters import dead_letter_filter
from perdure_ingest.validation import Check


async def replay_dead_letters(
    doors: Doors, caller: Caller, request: ReplayDeadLettersRequest
) -> ReplayDeadLettersResponse:
    """Have what matches now retried."""
    fields = Check()
    wanted = dead_letter_filter(fields, request.workflow, request.code)
    answer = await replay(doors, caller, fields, wanted, request)
    return ReplayDeadLettersResponse(replayed=answer.replayed, more=answer.more)


async def replay(
    doors: Doors,
    caller: Caller,
    fields: Check,
    wanted: DeadLetterFilter,
    request: ReplayDeadLettersRequest | ReplayDeadJobsRequest,
) -> control_service_pb2.ReplayDeadLettersResponse:
    """Check the rest of a request, and have what matches now retried."""
    limit = fields.number("limit", request.limit or limits.MAX_PAGE, least=1, most=limits.MAX_PAGE)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    return await doors.coordinator.replay_dead_letters(
        control_service_pb2.ReplayDeadLettersRequest(
            org=caller.org,
            workflow=wanted.workflow or "",
            code=wanted.code or "",
            limit=limit,
            reason=reason,
            asked_by=caller.actor,
            jobs_only=wanted.jobs_only,
        )
    )
