"""Tells the relay how many steps there is room for, each second and whenever the number changes.

That is what is free, and what will be before the relay hears from this worker again, if steps go on
ending as they do: without it slots wait for entries while a backlog waits for slots. Where steps
take long nothing is expected, so that no entry waits in a stream in front of other orgs for long.
"""

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

AHEAD_SECONDS = 0.04
"""About how long it takes until the relay acts on the next word: two of its passes."""

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
        self._said_at, self._given_back = clock.monotonic(), slots.given_back
        SLOTS.labels(plan.name).set(slots.capacity)

    async def announce_once(self) -> Pass:
        """Say how much room there is. Raises Unavailable, STREAMS_UNAVAILABLE."""
        self._used.set(self._slots.used)
        room = self._slots.free + self._coming()
        with quiet():
            await self._announcer.announce(dict.fromkeys(self._queues, room))
        await self._time.sleep(LEAST_PAUSE_SECONDS)
        return Pass()

    def _coming(self) -> int:
        """Return how many of the used slots will be free soon, as many as were in the same time."""
        before, self._said_at = self._said_at, self._time.monotonic()
        given_back = self._slots.given_back - self._given_back
        self._given_back = self._slots.given_back
        since = max(self._said_at - before, LEAST_PAUSE_SECONDS)
        return min(self._slots.used, round(given_back / since * AHEAD_SECONDS))

    async def withdraw(self) -> None:
        """Take back what was said. Raises Unavailable, STREAMS_UNAVAILABLE."""
        await self._announcer.withdraw(self._queues)
