"""An engine in memory: the same decisions and guards as on PostgreSQL, for tests of workflows.

    engine = MemoryEngine()
    engine.publish("acme", document)
    run_id = engine.start("acme", "order", b'{"item": 7}').run_id
    (queued,) = engine.queued_steps()
    granted = engine.submit("acme", run_id, Acquire(queued.step, uuid4(), "test"))
    engine.advance(3600)  # nothing happens by itself: then `fire` what `due_timers()` lists

One suite, tests/conformance, holds both engines to the same behaviour.
"""

from perdure_machine.memory.engine import MemoryEngine, StartAnswer
from perdure_machine.memory.lanes import DEFAULT_LANES
from perdure_machine.memory.lists import DeadLetter, DueTimer, ExpiredLease, QueuedStep, Stuck
from perdure_machine.memory.post import Undelivered

__all__ = [
    "DEFAULT_LANES",
    "DeadLetter",
    "DueTimer",
    "ExpiredLease",
    "MemoryEngine",
    "QueuedStep",
    "StartAnswer",
    "Stuck",
    "Undelivered",
]
