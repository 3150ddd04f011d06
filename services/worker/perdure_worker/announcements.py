"""Tells the relay how many slots are free, each second and whenever the number changes."""

from __future__ import annotations

from perdure_runtime.clock import Clock
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.metrics import gauge
from perdure_runtime.tracing import quiet
from perdure_streams.announce import Announcer

from perdure_worker.pool_plans import PoolPlan
from perdure_worker.slots import Slots

REPEAT_SECONDS = 1.0
LEAST_PAUSE_SECONDS = 0.02
"""Changes within this time are told together, so that short steps do not flood Redis."""

SLOTS = gauge("worker_slots", "Steps that a pool of this worker may run at once.", ("pool",))
SLOTS_USED = gauge("worker_slots_used", "Slots that hold a step or an entry.", ("pool",))


class Announcements(Loop):
    """A loop that is woken by changed slots."""

    def __init__(self, announcer: Announcer, plan: PoolPlan, slots: Slots, clock: Clock) -> None:
        super().__init__(
            "announcements", self.announce_once, LoopSettings(interval=REPEAT_SECONDS), clock=clock
        )
        self._announcer = announcer
        self._queues = plan.queues
        self._used = SLOTS_USED.labels(plan.name)
        self._slots = slots
        self._time = clock
        SLOTS.labels(plan.name).set(slots.capacity)

    async def announce_once(self) -> Pass:
        """Say how many slots are free now. Raises Unavailable, STREAMS_UNAVAILABLE."""
        self._used.set(self._slots.used)
        with quiet():
            await self._announcer.announce(dict.fromkeys(self._queues, self._slots.free))
        await self._time.sleep(LEAST_PAUSE_SECONDS)
        return Pass()

    async def withdraw(self) -> None:
        """Take back what was said. Raises Unavailable, STREAMS_UNAVAILABLE."""
        await self._announcer.withdraw(self._queues)
