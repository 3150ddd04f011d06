"""Turns a stream entry into a leased step, or into nothing, and takes it off the stream.

Granted, gone and blocked are definite: each ends the entry (protocol p2). "Again" and no answer are
asked anew under the same lease id, which gets the same grant; only an entry that stays unanswered
is left pending, for a reclaim.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_runtime.backoff import Backoff
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import bound, log_failure
from perdure_runtime.metrics import counter
from perdure_streams.consumer import Consumer, Entry

from perdure_worker.coordinator import NOT_NOW, Answered, Coordinator
from perdure_worker.hand_out import HandOut, hand_out, new_lease_id
from perdure_worker.settling import Settling

GIVE_UP_SECONDS = 8.0
"""How long an entry is asked for; a hand-out's lease, and the least reclaim age, are longer."""

AGAIN_BACKOFF = Backoff(base=0.05, factor=2.0, cap=1.0)

ACQUIRES = counter("worker_acquires_total", "Stream entries by what became of them.", ("answer",))

NAMES = {
    pb.ACQUIRE_STATUS_GRANTED: "granted",
    pb.ACQUIRE_STATUS_GONE: "gone",
    pb.ACQUIRE_STATUS_BLOCKED: "blocked",
}
"""The definite answers."""

Answer = Answered[pb.AcquireLeaseResult]

_logger = logging.getLogger(__name__)


class Intake(Component):
    """Acquires leases and settles entries, both in batches."""

    def __init__(self, coordinator: Coordinator, consumer: Consumer, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._acquiring: Batcher[pb.AcquireLeaseItem, Answer] = Batcher(
            coordinator.acquire, coordinator.max_items
        )
        self._settling = Settling(consumer, clock)

    async def on_start(self) -> None:
        """Take entries."""
        await self._acquiring.start()
        await self._settling.start()

    async def on_stop(self) -> None:
        """Finish what was taken."""
        await self._acquiring.stop()
        await self._settling.stop()

    async def take(
        self, entry: Entry, work: Callable[[HandOut], Awaitable[None]], worker: str = ""
    ) -> None:
        """Ask for the entry's step and do `work` on it if it is ours; settle the entry beside.

        `worker` is who takes it, where that is another than this process.
        """
        with bound(org=entry.hint.org, run=entry.hint.run_id, step=entry.hint.step):
            answered = await self._acquire(entry, worker)
            if answered is None:
                ACQUIRES.labels("unanswered").inc()
                return
            self._settling.settle(entry)
            await self._use(answered, work)

    async def _use(self, answered: Answer, work: Callable[[HandOut], Awaitable[None]]) -> None:
        result = answered.answer
        if isinstance(result, PerdureError):
            # The outbox still has the row, so nothing is lost by dropping a hint that is refused.
            ACQUIRES.labels("refused").inc()
            log_failure(_logger, "acquire.refused", result)
            return
        ACQUIRES.labels(NAMES[result.status]).inc()
        if result.status == pb.ACQUIRE_STATUS_GRANTED:
            await work(hand_out(result.grant, answered.sent_at))

    async def _acquire(self, entry: Entry, worker: str) -> Answer | None:
        """Return the definite answer, None if there was none in time."""
        item = pb.AcquireLeaseItem(
            org=entry.hint.org,
            run_id=str(entry.hint.run_id),
            step=entry.hint.step,
            lease_id=new_lease_id(),
            capacity=entry.hint.capacity,
            worker=worker,
        )
        gives_up_at = self._clock.monotonic() + GIVE_UP_SECONDS
        tries = 0
        while self._clock.monotonic() < gives_up_at:
            tries += 1
            answered = await self._ask(item)
            if answered is not None:
                return answered
            await self._clock.sleep(AGAIN_BACKOFF.seconds(tries, random.random()))
        return None

    async def _ask(self, item: pb.AcquireLeaseItem) -> Answer | None:
        try:
            answered = await self._acquiring.submit(item)
        except NOT_NOW as trouble:
            log_failure(_logger, "acquire.delayed", trouble)
            return None
        result = answered.answer
        return answered if isinstance(result, PerdureError) or result.status in NAMES else None
