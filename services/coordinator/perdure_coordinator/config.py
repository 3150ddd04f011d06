"""What an operator can set for the coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from perdure_runtime.config import setting
from perdure_runtime.config_groups import DatabaseConfig, GrpcConfig, ServiceConfig, TlsConfig
from perdure_runtime.errors import FieldViolation

MIN_KEY_LENGTH = 32
"""Characters of a key that nobody guesses."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorConfig(ServiceConfig, GrpcConfig, DatabaseConfig, TlsConfig):
    """Settings of the coordinator."""

    SERVICE: ClassVar[str] = "coordinator"

    grpc_port: int = setting(7410, min=0, max=65535, help="Port of the internal gRPC server.")
    ops_port: int = setting(
        7419, min=0, max=65535, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    committers: int = setting(
        4, min=1, max=64, help="Transactions in flight at once; a run belongs to one of them."
    )
    spare_connections: int = setting(
        8,
        min=1,
        max=256,
        unit="connections",
        help="For runs that somebody else holds, publishing, and timers that failed.",
    )
    max_batch: int = setting(
        256,
        min=1,
        max=1024,
        unit="events",
        help="Most events that one transaction takes; 1 has a transaction for each.",
    )
    wake_ups: bool = setting(
        True,
        help="Whether relay, timer and watchers are told of what was written; without it they find "
        "it when they look, 50 ms later at most.",
    )
    remembered_runs: int = setting(
        10_000,
        min=0,
        max=1_000_000,
        unit="runs",
        help="Runs that are remembered as they were last written, so that their next plain event "
        "needs no load; 0 loads always.",
    )
    start_key_retention: float = setting(
        7 * 86_400.0,
        min=0.0,
        unit="seconds",
        help="How long start keys and signals outlive the end of their run.",
    )
    early_signal_retention: float = setting(
        30 * 86_400.0,
        min=0.0,
        unit="seconds",
        help="How long a signal by a key that is no run's waits for a run that asks for it.",
    )
    subject_key: str = setting(
        "",
        secret=True,
        help="Secret under which the subjects of work are hashed, at least 32 characters, the same "
        "for all replicas and for good; empty refuses definitions with subjects, suppressions and "
        "erasures.",
    )
    credential_keys: str = setting(
        "",
        secret=True,
        help="Keys that seal the credentials of connections: ids and 32 random bytes in base64, as "
        "`id:base64,id:base64`, the same for all replicas. The first one seals, all of them open; "
        "empty: connections with credentials are refused.",
    )
    lane_refresh: float = setting(
        5.0, min=0.1, max=3600.0, unit="seconds", help="How old a known setting of a lane may be."
    )

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse a key that might be guessed."""
        yield from super().problems()
        if self.subject_key and len(self.subject_key) < MIN_KEY_LENGTH:
            yield FieldViolation("subject_key", f"must have {MIN_KEY_LENGTH} characters or more")
