"""What a worker reaches others through."""

from __future__ import annotations

from dataclasses import dataclass

from perdure_runtime.rpc.client import RpcClient
from redis.asyncio import Redis

from perdure_worker.coordinator import Coordinator


@dataclass(frozen=True, slots=True)
class Connections:
    """Redis, and the coordinator with what speaks to it."""

    redis: Redis
    client: RpcClient
    coordinator: Coordinator
