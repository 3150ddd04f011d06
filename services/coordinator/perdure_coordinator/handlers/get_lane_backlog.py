"""GetLaneBacklog: how much work queues hold, for whoever scales their workers."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from perdure_contracts.internal.v1.backlog_pb2 import (
    GetLaneBacklogRequest,
    GetLaneBacklogResponse,
    QueueBacklog,
)
from perdure_runtime.errors import FieldViolation, InvalidArgument
from perdure_store import outbox
from perdure_store.pool import acquire

MAX_QUEUES = 100
DEFAULT_LIMIT, MAX_LIMIT = 1000, 10_000


async def get_lane_backlog(
    spare: asyncpg.Pool, request: GetLaneBacklogRequest
) -> GetLaneBacklogResponse:
    """Count, each queue up to the limit. Raises InvalidArgument."""
    queues = parse_queues(request.queues)
    limit = min(max(request.limit, 0) or DEFAULT_LIMIT, MAX_LIMIT)
    async with acquire(spare) as connection:
        backlogs = await outbox.backlog(connection, queues, limit)
        ages = await outbox.oldest_ready(connection)
    return GetLaneBacklogResponse(
        backlogs=[
            QueueBacklog(
                queue=":".join(queue),
                waiting=found.waiting,
                running=found.running,
                oldest_seconds=ages.get(queue, 0.0),
            )
            for queue, found in zip(queues, backlogs, strict=True)
        ]
    )


def parse_queues(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return lane and owner of each queue. Raises InvalidArgument."""
    parts = [text.strip().partition(":") for text in texts]
    if not 1 <= len(parts) <= MAX_QUEUES or not all(lane and owner for lane, _, owner in parts):
        problem = f"must be 1 to {MAX_QUEUES} queues, each written lane:owner"
        raise InvalidArgument(f"queues {problem}", violations=[FieldViolation("queues", problem)])
    return [(lane, owner) for lane, _, owner in parts]
