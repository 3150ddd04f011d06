"""What operators can set of the relay."""

from __future__ import annotations

from dataclasses import dataclass

from perdure_runtime.config import setting
from perdure_runtime.config_groups import MAX_PORT, DatabaseConfig, RedisConfig, ServiceConfig


@dataclass(frozen=True, kw_only=True)
class RelayConfig(ServiceConfig, DatabaseConfig, RedisConfig):
    """The settings of one relay process."""

    SERVICE = "relay"

    ops_port: int = setting(
        7439, min=0, max=MAX_PORT, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    database_pool_size: int = setting(
        4, min=2, max=50, unit="connections", help="Most database connections."
    )
    redis_allow_eviction: bool = setting(
        False, help="Whether to start although Redis may evict streams, which loses dispatches."
    )
    poll_seconds: float = setting(
        0.05,
        min=0.005,
        max=5.0,
        unit="seconds",
        help="Longest time between two looks at the outbox; wake-ups come between.",
    )
    recheck_seconds: float = setting(
        1.0, min=0.1, max=60.0, unit="seconds", help="Time between two looks for lost entries."
    )
    buffer_entries: int = setting(
        8,
        min=1,
        max=1000,
        unit="entries",
        help="Entries a stream may hold beyond the free slots that its workers announce.",
    )
    orgs_per_pass: int = setting(
        64, min=1, max=1000, unit="orgs", help="Most orgs that one pass over a stream serves."
    )
    lease_seconds: float = setting(
        10.0,
        min=3.0,
        max=60.0,
        unit="seconds",
        help="Lease of a lane's shard; after this time another relay takes over from a dead one.",
    )
