"""What operators can set of ingest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure_runtime.config import setting
from perdure_runtime.config_groups import (
    MAX_PORT,
    CoordinatorClientConfig,
    DatabaseConfig,
    GrpcConfig,
    PublicTlsConfig,
    ServiceConfig,
)
from perdure_runtime.errors import FieldViolation

from perdure_ingest.config_auth import AuthConfig

MIN_KEY_LENGTH = 16


@dataclass(frozen=True, kw_only=True)
class IngestConfig(
    ServiceConfig, GrpcConfig, DatabaseConfig, CoordinatorClientConfig, PublicTlsConfig, AuthConfig
):
    """The settings of one ingest process."""

    SERVICE = "ingest"

    ops_port: int = setting(
        7409, min=0, max=MAX_PORT, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    grpc_port: int = setting(
        7400, min=0, max=MAX_PORT, help="Port of the public gRPC API; 0 takes a free one."
    )
    http_port: int = setting(
        7401, min=0, max=MAX_PORT, help="Port of the public HTTP/JSON API; 0 takes a free one."
    )
    http_max_connections: int = setting(
        4000, min=1, unit="connections", help="Most HTTP connections at once; more are closed."
    )
    database_pool_size: int = setting(
        10, min=1, max=200, unit="connections", help="Most database connections for reads."
    )
    page_token_key: str = setting(
        "",
        secret=True,
        help="Secret that signs page tokens, at least 16 characters, the same for all replicas; "
        "empty makes a random one, and then a list begun at one process cannot go on at another, "
        "nor after a restart.",
    )
    watch_limit: int = setting(
        1000,
        min=1,
        unit="streams",
        help="Most WatchRun streams at once; keep it below the limit of concurrent calls.",
    )
    watch_seconds: float = setting(
        50.0,
        min=1.0,
        max=240.0,
        unit="seconds",
        help="How long a WatchRun stream lasts before the client is asked to come back.",
    )
    watch_poll_seconds: float = setting(
        0.1,
        min=0.05,
        max=60.0,
        unit="seconds",
        help="How often changes of watched runs are looked for when no wake-up comes.",
    )

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse what would leave callers without a usable page token or a place for calls."""
        yield from super().problems()
        if self.page_token_key and len(self.page_token_key) < MIN_KEY_LENGTH:
            yield FieldViolation("page_token_key", f"must have {MIN_KEY_LENGTH} characters or more")
        if self.watch_limit >= self.grpc_max_concurrent_rpcs:
            yield FieldViolation("watch_limit", "must be less than grpc_max_concurrent_rpcs")
