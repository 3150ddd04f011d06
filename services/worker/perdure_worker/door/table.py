"""What every method of the door asks of its caller; what is not in it is refused."""

from __future__ import annotations

from types import MappingProxyType

from perdure_runtime.access import Permission
from perdure_runtime.gate.authorise import Rule, Rules

SERVICE = "perdure.v1.WorkerService"

METHODS = (
    "RegisterWorker",
    "PollTasks",
    "HeartbeatTasks",
    "CompleteTask",
    "FailTask",
    "BeginEffect",
    "SettleEffect",
    "ReleaseTasks",
    "DrainWorker",
)

RULES: Rules = MappingProxyType(
    {f"/{SERVICE}/{method}": Rule(Permission.WORK) for method in METHODS}
)
"""By full method name, such as `/perdure.v1.WorkerService/PollTasks`."""
