"""All polls that wait at this process, the queues that are read for them, and how they end.

What the polls of a queue have room for is announced as free slots are, so the relay sends no more
than somebody waits for. A queue for which nobody has polled for a while is let go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from perdure_runtime.clock import Clock
from perdure_runtime.errors import Unavailable
from perdure_runtime.logs import log_failure
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.metrics import counter, gauge
from perdure_runtime.tracing import quiet
from perdure_streams.announce import Announcer
from perdure_streams.names import Queue

from perdure_worker.announcements import LEAST_PAUSE_SECONDS, REPEAT_SECONDS
from perdure_worker.door.lanes import KnownLanes
from perdure_worker.door.queues import ServedQueue
from perdure_worker.door.waiting import Poll
from perdure_worker.hand_out import HandOut
from perdure_worker.releases import Releases

IDLE_SECONDS = 15.0
"""How long a queue is read on after its last poll, since the next one usually comes at once."""

DRAINED_SECONDS = 60.0
"""How long a worker that was drained gets nothing."""

POLLS = counter("worker_polls_total", "Polls for tasks by how they were answered.", ("outcome",))
OPEN_POLLS = gauge("worker_polls_open", "Polls for tasks that wait.")

_logger = logging.getLogger(__name__)

Serve = Callable[[Queue], ServedQueue]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a poll asks for; `wait` is seconds."""

    org: str
    worker: str
    lanes: Sequence[str]
    room: int
    wait: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a poll is answered with."""

    hand_outs: Sequence[HandOut]
    is_draining: bool = False


class Polls(Loop):
    """Waits for tasks on behalf of callers; its passes announce the room that they have."""

    def __init__(
        self,
        serve: Serve,
        lanes: KnownLanes,
        announcer: Announcer,
        releases: Releases,
        clock: Clock,
    ) -> None:
        settings = LoopSettings(interval=REPEAT_SECONDS)
        super().__init__("door.polls", self.announce_once, settings, clock=clock)
        self._serve = serve
        self._lanes = lanes
        self._announcer = announcer
        self._releases = releases
        self._time = clock
        self._queues: dict[Queue, ServedQueue] = {}
        self._used_at: dict[Queue, float] = {}
        self._open: set[Poll] = set()
        self._drained: dict[tuple[str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = False
        lanes.on_change(self._serve_shards)

    async def poll(self, asked: Asked) -> Answer:
        """Wait for tasks. Raises as `KnownLanes.check` does."""
        await self._lanes.check(asked.lanes)
        if self._is_draining or self._is_drained(asked):
            POLLS.labels("drained").inc()
            return Answer((), is_draining=True)
        poll = Poll(asked.org, asked.worker, asked.room, self._time)
        queues = [await self._queue(Queue(lane, asked.org)) for lane in asked.lanes]
        with OPEN_POLLS.track_inprogress():
            return await self._answer(poll, queues, asked.wait)

    def drain_worker(self, org: str, worker: str) -> int:
        """Answer the polls of a worker and give it nothing for a while; return how many it had."""
        self._drained[org, worker] = self._time.monotonic() + DRAINED_SECONDS
        polls = [poll for poll in self._open if (poll.org, poll.worker) == (org, worker)]
        for poll in polls:
            poll.drain()
        return len(polls)

    async def drain(self) -> None:
        """Answer every poll, and those that come at once; announce nothing more."""
        self._is_draining = True
        for poll in self._open:
            poll.drain()
        await super().drain()

    async def on_start(self) -> None:
        """Take polls."""
        self._is_draining = False
        await super().on_start()

    async def on_stop(self) -> None:
        """Read no more; what was handed to nobody goes back."""
        await super().on_stop()
        queues = list(self._queues)
        await self._let_go(queues)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def announce_once(self) -> Pass:
        """Say what there is room for, and let queues go that nobody polls for any more."""
        now = self._time.monotonic()
        self._drained = {who: until for who, until in self._drained.items() if until > now}
        await self._let_go([queue for queue in self._queues if self._is_idle(queue, now)])
        if self._queues:
            free = {queue: served.line.free for queue, served in self._queues.items()}
            with quiet():
                await self._announcer.announce(free)
            await self._time.sleep(LEAST_PAUSE_SECONDS)
        return Pass()

    async def _answer(self, poll: Poll, queues: list[ServedQueue], seconds: float) -> Answer:
        self._open.add(poll)
        poll.stand_in([served.line for served in queues])
        if self._is_draining or self._is_drained(poll):
            poll.drain()
        try:
            await poll.wait(seconds)
        except BaseException:
            # The caller is gone, and so is whom the tasks were for.
            for hand_out in poll.hand_outs:
                self._spawn(self._hand_on(hand_out))
            raise
        finally:
            poll.end()
            self._open.discard(poll)
            self._used_at.update(dict.fromkeys((q.queue for q in queues), self._time.monotonic()))
        POLLS.labels(_outcome(poll)).inc()
        return Answer(tuple(poll.hand_outs), poll.is_drained)

    async def _queue(self, queue: Queue) -> ServedQueue:
        served = self._queues.get(queue)
        if served is None:
            served = self._queues[queue] = self._serve(queue)
            self._used_at[queue] = self._time.monotonic()
            served.line.on_change(self.wake)
            served.serve(self._lanes.shards(queue.lane))
            await served.start()
        return served

    async def _hand_on(self, hand_out: HandOut) -> None:
        served = self._queues.get(Queue.parse(hand_out.grant.queue))
        if served is None or not served.line.give(hand_out):
            await self._releases.release(hand_out.lease)

    async def _let_go(self, queues: list[Queue]) -> None:
        if not queues:
            return
        for queue in queues:
            served = self._queues.pop(queue)
            self._used_at.pop(queue, None)
            self._spawn(served.stop())
        try:
            await self._announcer.withdraw(queues)
        except Unavailable as trouble:
            # The announcement runs out by itself.
            log_failure(_logger, "door.not_withdrawn", trouble)

    def _is_idle(self, queue: Queue, now: float) -> bool:
        is_empty = self._queues[queue].line.is_empty
        return is_empty and self._used_at.get(queue, now) + IDLE_SECONDS <= now

    def _is_drained(self, whose: Asked | Poll) -> bool:
        return self._drained.get((whose.org, whose.worker), 0.0) > self._time.monotonic()

    def _serve_shards(self) -> None:
        for queue, served in self._queues.items():
            served.serve(self._lanes.shards(queue.lane))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _outcome(poll: Poll) -> str:
    if poll.hand_outs:
        return "tasks"
    return "drained" if poll.is_drained else "empty"
