"""While one batch is in flight the next one gathers: group commit, for any batched call.

Nothing waits for company: an item that finds nobody in flight goes at the next turn of the loop,
with all that came in the same turn. Under load a batch is what gathered while the last one was
away, so latency stays near one call and calls do not grow in number with the items.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from perdure_runtime.errors import Internal, Reason, Unavailable
from perdure_runtime.tracing import quiet

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Sends items in batches and gives each submitter its own answer.

    At most `at_once` batches are away at a time; more than one where a slow batch must not hold up
    the items behind it. `send` takes 1 to `max_items` items and returns one answer per item, in
    order. With `weigh`, a batch also stops growing before its weights sum to more than
    `max_weight`; a heavier item goes alone. Whatever `send` raises is raised by every `submit` of
    that batch; nothing is retried.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Answer]]],
        max_items: int,
        *,
        weigh: Callable[[Item], int] | None = None,
        max_weight: int = 0,
        at_once: int = 1,
    ) -> None:
        self._send = send
        self._max_items = max_items
        self._weigh = weigh
        self._max_weight = max_weight
        self._gathered: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._at_once = at_once
        self._running: set[asyncio.Task[None]] = set()
        self._context = Context()
        self._open = False

    async def start(self) -> None:
        """Take items from now on; starting twice is harmless."""
        # One submitter's deadline and log fields are not the others', and what serves many is part
        # of no trace. Entered once, not for each batch.
        self._context = Context()
        self._context.run(quiet().__enter__)
        self._open = True

    async def drain(self) -> None:
        """Nothing to do: who submits stops submitting."""

    async def stop(self) -> None:
        """Take no more items and wait until every one that was taken is answered."""
        self._open = False
        while self._running:
            await asyncio.wait(self._running)

    async def submit(self, item: Item) -> Answer:
        """Send one item with whatever gathers beside it and return its answer.

        An item whose submitter is cancelled before it was sent is not sent.
        Raises what `send` raised, or Unavailable, DRAINING, when not started or stopped.
        """
        return await self.put(item)

    def put(self, item: Item) -> asyncio.Future[Answer]:
        """Send one item as `submit` does; what comes of it is told by what is returned."""
        if not self._open:
            raise Unavailable("takes no more items", reason=Reason.DRAINING)
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, waiter))
        if len(self._running) < self._at_once:
            task = asyncio.create_task(self._run(), context=self._context.copy())
            self._running.add(task)
        return waiter

    async def _run(self) -> None:
        try:
            while batch := self._take():
                await self._send_batch(batch)
        finally:
            # Not in a callback, which would come after a turn in which items may be submitted.
            self._running.discard(asyncio.current_task())

    def _take(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        weight = 0
        while self._gathered and len(batch) < self._max_items:
            item, waiter = self._gathered[0]
            if not waiter.done():
                weight += self._weigh(item) if self._weigh else 0
                if batch and weight > self._max_weight:
                    break
                batch.append((item, waiter))
            self._gathered.popleft()
        return batch

    async def _send_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        outcome = await self._outcome([item for item, _ in batch])
        answers = _answers_or_failure(outcome, len(batch))
        for place, (_, waiter) in enumerate(batch):
            if waiter.done():
                continue
            if isinstance(answers, BaseException):
                waiter.set_exception(answers)
            else:
                waiter.set_result(answers[place])

    async def _outcome(self, items: list[Item]) -> Sequence[Answer] | BaseException:
        """Return how the call ended; every way is a value here, so that none ends the loop."""
        try:
            return await self._send(items)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # of this task, not of what the call waited for
            return error
        except Exception as error:  # noqa: BLE001 - raised to those who sent the items
            return error


def _answers_or_failure(
    outcome: Sequence[Answer] | BaseException, expected: int
) -> Sequence[Answer] | BaseException:
    if isinstance(outcome, asyncio.CancelledError):
        return Unavailable("the process stops before this is answered", reason=Reason.DRAINING)
    if isinstance(outcome, BaseException) or len(outcome) == expected:
        return outcome
    return Internal(f"{len(outcome)} answers to {expected} items", reason=Reason.INTERNAL)
