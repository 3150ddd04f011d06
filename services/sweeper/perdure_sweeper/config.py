"""What an operator can set for the sweeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure_runtime.config import setting
from perdure_runtime.config_groups import CoordinatorClientConfig, DatabaseConfig, ServiceConfig


@dataclass(frozen=True, kw_only=True)
class SweeperConfig(ServiceConfig, DatabaseConfig, CoordinatorClientConfig):
    """Settings of the sweeper."""

    SERVICE: ClassVar[str] = "sweeper"

    ops_port: int = setting(
        7459, min=0, max=65535, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    interval: float = setting(
        1.0,
        min=0.05,
        max=60.0,
        unit="seconds",
        help="Time between looks for leases and runs that are over, and undelivered signals.",
    )
    blocked_interval: float = setting(
        0.25,
        min=0.05,
        max=60.0,
        unit="seconds",
        help="Time between looks for blocked steps whose connections have room again.",
    )
    audit_interval: float = setting(
        10.0,
        min=0.05,
        max=3600.0,
        unit="seconds",
        help="Time between full checks that every unfinished step has a way forward.",
    )
    upkeep_interval: float = setting(
        600.0,
        min=1.0,
        max=86_400.0,
        unit="seconds",
        help="Time between making months ahead and deleting keys and signals that are over.",
    )
    lease: float = setting(
        10.0,
        min=0.5,
        max=300.0,
        unit="seconds",
        help="Lease under which one sweeper is active; another takes over after it.",
    )
