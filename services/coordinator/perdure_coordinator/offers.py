"""Workers that have nothing to do and wait here for a step, by the queues that it may be of.

An offer lives in this process as long as its call: nothing rests on it. Who takes one answers it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse


class Offer:
    """One worker's, under a lease id that it made; `since` is when it came, a monotonic instant."""

    def __init__(self, worker: str, queues: Sequence[str], lease_id: UUID, since: float) -> None:
        self.worker = worker
        self.queues = tuple(queues)
        self.lease_id = lease_id
        self.since = since
        self.answer: asyncio.Future[AwaitStepResponse] = asyncio.get_running_loop().create_future()

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

    def put(self, offer: Offer) -> None:
        """Let it be taken for a step of any of its queues."""
        for queue in offer.queues:
            self._waiting[queue][offer] = None

    def take(self, queue: str) -> Offer | None:
        """Return an offer for a step of this queue that nobody else is given; None without one."""
        offer = next(iter(self._waiting.get(queue, ())), None)
        if offer is not None:
            self.withdraw(offer)
        return offer

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
