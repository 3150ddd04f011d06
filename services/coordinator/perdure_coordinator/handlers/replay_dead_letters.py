"""ReplayDeadLetters: an internal event for each dead letter that matches now."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    ReplayDeadLettersRequest,
    ReplayDeadLettersResponse,
)
from perdure_store.dead_letters import DeadLetterFilter, replay_later
from perdure_store.pool import acquire

MAX_REPLAYED = 1000
"""Dead letters that one call takes at most, as its contract says."""


async def replay_dead_letters(
    spare: asyncpg.Pool, request: ReplayDeadLettersRequest
) -> ReplayDeadLettersResponse:
    """Set the events and say how many."""
    wanted = DeadLetterFilter(request.workflow or None, request.code or None, request.jobs_only)
    limit = max(1, min(request.limit, MAX_REPLAYED))
    async with acquire(spare) as connection:
        replayed, more = await replay_later(
            connection,
            request.org,
            wanted,
            limit=limit,
            reason=request.reason,
            actor=request.asked_by,
        )
    return ReplayDeadLettersResponse(replayed=replayed, more=more)
