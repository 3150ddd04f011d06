"""Waits at the coordinator for a step while the streams bring none (see its `handing`).

An offer holds a slot, so that a step which comes begins at once. A pool has one offer at most and
makes none while entries come one after the other: so a step that came by the streams is overtaken
only by those that are handed out while it is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.errors import Unimplemented
from perdure_runtime.loop import Loop, LoopSettings, Pass

from perdure_worker.begun import Begun
from perdure_worker.coordinator import Coordinator
from perdure_worker.hand_out import HandOut, new_lease_id
from perdure_worker.reader import Reader
from perdure_worker.slots import Slots

WAIT_SECONDS = 0.5
"""How long an offer waits; also how long a drain may wait for the one that was made."""

STOP_SECONDS = 1.0
"""How long a stop waits for it, should the coordinator hang; a step that comes later is lost."""

LOOK_SECONDS = 0.05
"""Time between two looks whether there is room for an offer."""

REFUSED_SECONDS = 60.0
"""How long none is made after a coordinator, an older one, did not know what an offer is."""

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=2.0)


class Offers(Loop):
    """Makes a pool's offers, one after the other."""

    def __init__(
        self,
        coordinator: Coordinator,
        reader: Reader,
        slots: Slots,
        begun: Begun,
        work: Callable[[HandOut], Awaitable[None]],
        clock: Clock,
    ) -> None:
        settings = LoopSettings(interval=LOOK_SECONDS, backoff=_BACKOFF)
        super().__init__("offers", self.offer_once, settings, clock=clock)
        self._coordinator = coordinator
        self._reader = reader
        self._slots = slots
        self._begun = begun
        self._work = work
        self._time = clock
        self._refused_until = clock.monotonic()

    async def on_stop(self) -> None:
        """Let the offer that was made come to its end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await super().on_stop()

    async def offer_once(self) -> Pass:
        """Wait for a step if there is room, and begin it. Raises PerdureError."""
        if not self._may_offer():
            return Pass()
        self._slots.take()
        handed = None
        try:
            handed = await self._coordinator.await_step(new_lease_id(), WAIT_SECONDS)
        except Unimplemented:
            self._refused_until = self._time.monotonic() + REFUSED_SECONDS
            return Pass()
        finally:
            if handed is None:
                self._slots.give_back()
        if handed is not None:
            self._begun.begin(self._work(handed), name=f"step {handed.lease.run_id}")
        return Pass({"steps": int(handed is not None)}, more=True)

    def _may_offer(self) -> bool:
        # What the read in flight may bring has its slots already.
        left = self._slots.free - max(1, self._reader.asked)
        is_refused = self._time.monotonic() < self._refused_until
        return left > 0 and self._reader.is_quiet and not is_refused
