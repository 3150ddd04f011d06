"""Polls that wait for tasks, and the line in which they stand for a queue: the first gets first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure_runtime.clock import Clock

from perdure_worker.hand_out import HandOut

MAX_ANSWER_BYTES = 3 * 1024 * 1024
"""Most bytes of inputs in one answer; a message of gRPC has 4 MiB at most (F091)."""

LARGEST_INPUT_BYTES = 1024 * 1024

GATHER_SECONDS = 0.05
"""How long an answer that has a task waits for others that are on their way."""

LAST_SECONDS = 1.0
"""How long an empty answer whose time is over waits for a task that is on its way."""


class Poll:
    """One call that waits: what it has room for, and what it was handed."""

    def __init__(self, org: str, worker: str, room: int, clock: Clock) -> None:
        self.org = org
        self.worker = worker
        self.hand_outs: list[HandOut] = []
        self.is_drained = False
        self._room = room
        self._clock = clock
        self._promised = 0
        self._weight = 0
        self._is_closing = False
        self._is_over = False
        self._changed = asyncio.Event()
        self._lines: list[Line] = []

    @property
    def free(self) -> int:
        """How many tasks more may be looked for; none once it is to be answered."""
        is_full = self._weight > MAX_ANSWER_BYTES - LARGEST_INPUT_BYTES
        if self._is_closing or self._is_over or is_full:
            return 0
        return self._room - len(self.hand_outs) - self._promised

    async def wait(self, seconds: float) -> None:
        """Return with a task, after `seconds` without one, or when it is drained."""
        until = self._clock.monotonic() + seconds
        while not self._is_done:
            left = until - self._clock.monotonic()
            if left <= 0:
                break
            self._changed.clear()
            await self._clock.wait(self._changed, left)
        self._is_closing = True
        self._tell_lines()
        await self._wait_for_promised(GATHER_SECONDS if self.hand_outs else LAST_SECONDS)

    def drain(self) -> None:
        """Have it answered with what it has."""
        self.is_drained = True
        self._changed.set()

    def promise(self) -> Promise:
        """Count on a task that is being asked for."""
        self._promised += 1
        return Promise(self, self._withdraw)

    def give(self, hand_out: HandOut) -> bool:
        """Hand it a task, unless its answer is gone or full; tell whether it has it."""
        weight = len(hand_out.grant.input)
        fits = not self.hand_outs or self._weight + weight <= MAX_ANSWER_BYTES
        if self._is_over or not fits or len(self.hand_outs) >= self._room:
            return False
        self.hand_outs.append(hand_out)
        self._weight += weight
        self._changed.set()
        return True

    def stand_in(self, lines: list[Line]) -> None:
        """Join these lines, at their ends."""
        self._lines = lines
        for line in lines:
            line.join(self)

    def end(self) -> None:
        """Leave the lines; what comes now is for others."""
        self._is_over = True
        for line in self._lines:
            line.leave(self)

    def _withdraw(self) -> None:
        self._promised -= 1
        self._changed.set()
        self._tell_lines()

    @property
    def _is_done(self) -> bool:
        return bool(self.hand_outs) or self.is_drained

    async def _wait_for_promised(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._promised and (left := until - self._clock.monotonic()) > 0:
            self._changed.clear()
            await self._clock.wait(self._changed, left)

    def _tell_lines(self) -> None:
        for line in self._lines:
            line.changed()


class Promise:
    """A task that is being asked for, for one poll."""

    def __init__(self, poll: Poll, withdraw: Callable[[], None]) -> None:
        self.poll = poll
        self._withdraw = withdraw
        self._is_open = True

    def keep(self, hand_out: HandOut) -> bool:
        """Hand the poll what was promised; tell whether it has it."""
        is_given = self.poll.give(hand_out)
        self.drop()
        return is_given

    def drop(self) -> None:
        """Promise it no longer; twice is harmless."""
        if self._is_open:
            self._is_open = False
            self._withdraw()


class Line:
    """The polls that wait for tasks of one queue, as the places that a reader reads for."""

    def __init__(self) -> None:
        self._polls: dict[Poll, None] = {}
        self._unclaimed = 0
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever there may be more room, or less."""
        self._listeners.append(listener)

    @property
    def is_empty(self) -> bool:
        """Whether nobody stands in it."""
        return not self._polls

    @property
    def free(self) -> int:
        """How many tasks its polls have room for."""
        return max(0, sum(poll.free for poll in self._polls) - self._unclaimed)

    def take(self) -> None:
        """Count an entry that was read and that no poll was promised yet."""
        self._unclaimed += 1

    def give_back(self) -> None:
        """Nothing is left to do of an entry."""
        self.changed()

    def claim(self) -> Promise | None:
        """Promise an entry to the first poll that has room, if one still waits."""
        self._unclaimed -= 1
        poll = next((poll for poll in self._polls if poll.free > 0), None)
        return poll.promise() if poll is not None else None

    def give(self, hand_out: HandOut) -> bool:
        """Hand a task to the first poll that has room for it; tell whether one has it."""
        return any(poll.free > 0 and poll.give(hand_out) for poll in self._polls)

    def join(self, poll: Poll) -> None:
        """Stand at the end."""
        self._polls[poll] = None
        self.changed()

    def leave(self, poll: Poll) -> None:
        """Stand in it no more."""
        self._polls.pop(poll, None)
        self.changed()

    def changed(self) -> None:
        """Tell who listens."""
        for listener in self._listeners:
            listener()
