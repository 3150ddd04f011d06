"""What an operator can set for the timer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure_runtime.config import setting
from perdure_runtime.config_groups import CoordinatorClientConfig, DatabaseConfig, ServiceConfig


@dataclass(frozen=True, kw_only=True)
class TimerConfig(ServiceConfig, DatabaseConfig, CoordinatorClientConfig):
    """Settings of the timer."""

    SERVICE: ClassVar[str] = "timer"

    ops_port: int = setting(
        7449, min=0, max=65535, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    interval: float = setting(
        0.05,
        min=0.005,
        max=5.0,
        unit="seconds",
        help="Time between looks at what is due; also how far ahead a look reaches.",
    )
    lease: float = setting(
        10.0,
        min=0.5,
        max=300.0,
        unit="seconds",
        help="Lease under which one timer is active; another takes over after it.",
    )
