"""How tasks ended, told to the coordinator until it answers or the call's time is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_contracts.v1.worker_service_pb2 import Task
from perdure_runtime.clock import Clock
from perdure_runtime.errors import FailedPrecondition, PerdureError, Reason, Unavailable
from perdure_runtime.lifecycle import Component
from perdure_runtime.rpc import deadline
from perdure_streams.names import Queue

from perdure_worker.coordinator import Answered, Coordinator
from perdure_worker.door.handing import Chain, Handing
from perdure_worker.door.requests import Next
from perdure_worker.hand_out import HandOut, hand_out, new_lease_id
from perdure_worker.outcome import Ended, to_report
from perdure_worker.releases import Releases
from perdure_worker.reports import AGAIN_BACKOFF, Answer, ask, reporting

SPARE_SECONDS = 0.5
"""Of a call's time: what is left for telling it that there is no answer yet."""

LONGEST_SECONDS = 15.0
"""How long an answer is waited for in a call without a deadline."""


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """Bounds how many tasks of a run follow one upon the other while others wait."""

    steps: int
    seconds: float


class Results(Component):
    """Takes ends of tasks, in batches; what it hands on belongs to the call that is answered."""

    def __init__(
        self,
        coordinator: Coordinator,
        handing: Handing,
        releases: Releases,
        limits: ChainLimits,
        is_draining: Callable[[], bool],
        clock: Clock,
    ) -> None:
        super().__init__()
        self._handing = handing
        self._releases = releases
        self._limits = limits
        self._is_draining = is_draining
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reporting = reporting(coordinator)

    async def on_start(self) -> None:
        """Take ends."""
        await self._reporting.start()

    async def on_stop(self) -> None:
        """Tell what was taken."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._reporting.stop()

    async def tell(self, token: TaskToken, outcome: Ended, follows: Next) -> Task | None:
        """Tell how a task ended; return the run's next one if it came with the answer.

        Raises FailedPrecondition, LEASE_LOST, where the task is another's or over; Unavailable
        where nobody answers in time; else what the coordinator refused it with.
        """
        item = self._item(token, outcome, follows)
        telling = asyncio.create_task(self._told(item))
        self._tasks.add(telling)
        telling.add_done_callback(self._tasks.discard)
        try:
            found = await asyncio.shield(telling)
        except asyncio.CancelledError:
            telling.add_done_callback(self._nobody_waits)
            raise
        return await self._task(token, found) if found is not None else None

    def _item(self, token: TaskToken, outcome: Ended, follows: Next) -> pb.ReportResultItem:
        offers = bool(follows.lanes) and self._may_follow(token) and not self._is_draining()
        item = to_report(token.lease, outcome, new_lease_id() if offers else "")
        item.traceparent = token.traceparent
        item.connection_generation = token.connection_generation
        if offers:
            org = token.lease.org
            item.next_queues.extend(str(Queue(lane, org)) for lane in follows.lanes)
            item.next_worker = follows.worker
        return item

    def _may_follow(self, token: TaskToken) -> bool:
        took = self._handing.now() - token.chain_began_ms / 1000
        return token.followers < self._limits.steps and took <= self._limits.seconds

    async def _task(self, token: TaskToken, found: HandOut) -> Task | None:
        chain = Chain(token.followers + 1, token.chain_began_ms)
        task = self._handing.task(found, chain)
        if task is None:
            await self._releases.release(found.lease)
        return task

    async def _told(self, item: pb.ReportResultItem) -> HandOut | None:
        left = deadline.remaining()
        until = self._clock.monotonic() + (LONGEST_SECONDS if left is None else left)
        tries = 0
        while True:
            tries += 1
            answer = await ask(self._reporting, item)
            if isinstance(answer, Answered):
                return _next_of(answer)
            pause = AGAIN_BACKOFF.seconds(tries, random.random())
            if self._clock.monotonic() + pause + SPARE_SECONDS >= until:
                raise Unavailable(
                    f"the result is not told yet: {answer.message}", reason=Reason.PEER_UNAVAILABLE
                )
            await self._clock.sleep(pause)

    def _nobody_waits(self, telling: asyncio.Task[HandOut | None]) -> None:
        """Hand back what came with the answer to a call that is gone."""
        if telling.cancelled() or telling.exception() is not None:
            return
        found = telling.result()
        if found is not None:
            task = asyncio.create_task(self._releases.release(found.lease))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _next_of(answered: Answer) -> HandOut | None:
    result = answered.answer
    if isinstance(result, PerdureError):
        raise result
    if result.status == pb.ITEM_STATUS_STALE:
        raise FailedPrecondition(
            "the task is another's, or over: its result does not count", reason=Reason.LEASE_LOST
        )
    return hand_out(result.next, answered.sent_at) if result.HasField("next") else None
