"""What must answer before this worker counts as ready."""

from __future__ import annotations

from perdure_runtime.ops import Check
from perdure_streams.errors import classified
from redis.asyncio import Redis

from perdure_worker.coordinator import Coordinator


def redis_check(client: Redis) -> Check:
    """Return a check that Redis answers."""

    async def check() -> str:
        with classified():
            await client.ping()
        return ""

    return check


def coordinator_check(coordinator: Coordinator) -> Check:
    """Return a check that the coordinator answers."""

    async def check() -> str:
        await coordinator.lanes()
        return ""

    return check
