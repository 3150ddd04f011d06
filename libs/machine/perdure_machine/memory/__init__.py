"""An engine in memory: the same decisions and guards as on PostgreSQL, for tests of workflows."""

from perdure_machine.memory.engine import MemoryEngine, StartAnswer
from perdure_machine.memory.lanes import DEFAULT_LANES
from perdure_machine.memory.lists import DueTimer, ExpiredLease, QueuedStep, Stuck

__all__ = [
    "DEFAULT_LANES",
    "DueTimer",
    "ExpiredLease",
    "MemoryEngine",
    "QueuedStep",
    "StartAnswer",
    "Stuck",
]
