"""Workers that have nothing to do and wait here for a step, by the queues that it may be of.

An offer lives in this process as long as its call: nothing rests on it. Who takes one answers it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from uuid import UUID

from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse
from perdure_runtime.errors import Reason, Unavailable


class Offer:
    """One worker's, under a lease id that it made."""

    def __init__(self, worker: str, queues: Sequence[str], lease_id: UUID) -> None:
        loop = asyncio.get_running_loop()
        self.worker = worker
        self.queues = tuple(queues)
        self.lease_id = lease_id
        self.answer: asyncio.Future[AwaitStepResponse] = loop.create_future()
        self._came_at = loop.time()

    @property
    def waited(self) -> float:
        """Seconds since it came."""
        return asyncio.get_running_loop().time() - self._came_at

    def give(self, answer: AwaitStepResponse) -> bool:
        """Answer it; return whether there is still somebody who waits for that."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True


class Offers:
    """Those that nobody has taken; of a queue's the one that waits for longest is the next."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, dict[Offer, None]] = defaultdict(dict)
        self._is_open = False

    def open(self) -> None:
        """Have offers wait from now on."""
        self._is_open = True

    def close(self) -> None:
        """Answer all that wait with nothing; none is put any more."""
        self._is_open = False
        for offer in tuple(chain.from_iterable(self._waiting.values())):
            self.end(offer)

    def put(self, offer: Offer) -> None:
        """Let it be taken for a step of any of its queues. Raises Unavailable, DRAINING."""
        if not self._is_open:
            raise Unavailable("no offer is waited for any more", reason=Reason.DRAINING)
        for queue in offer.queues:
            self._waiting[queue][offer] = None

    def take(self, queue: str) -> Offer | None:
        """Return an offer for a step of this queue that nobody else is given; None without one."""
        offer = next(iter(self._waiting.get(queue, ())), None)
        if offer is not None:
            self.withdraw(offer)
        return offer

    def end(self, offer: Offer) -> None:
        """Answer it with nothing, unless it was taken: then who took it answers."""
        if self.withdraw(offer):
            offer.give(AwaitStepResponse())

    def withdraw(self, offer: Offer) -> bool:
        """Let it be taken no more; return whether nobody had taken it."""
        was_waiting = False
        for queue in offer.queues:
            waiting = self._waiting.get(queue, {})
            was_waiting = offer in waiting or was_waiting
            waiting.pop(offer, None)
            if not waiting:
                self._waiting.pop(queue, None)
        return was_waiting
