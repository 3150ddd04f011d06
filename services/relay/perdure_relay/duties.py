"""Which shards this process leads: one elected relay per lane and shard.

Two relays of one shard, for the moment in which a paused one wakes up, would only send things
twice. A changed number of shards is taken up within a second: a row's shard is worked out from its
slot at each pick, so no row is left without a relay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import asyncpg
from perdure_machine.lanes import Lane
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.election import Election, ElectionSettings, LeaseStore
from perdure_runtime.lifecycle import Component
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_store.lanes import load_lanes
from perdure_store.pool import acquire
from perdure_streams.names import Queue, StreamName

from perdure_relay.metrics import LEADING

REFRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, order=True)
class Duty:
    """One shard of a lane."""

    lane: str
    shard: int

    def __str__(self) -> str:
        """The name that the duty is elected under."""
        return f"relay:{self.lane}:{self.shard}"


@dataclass(frozen=True, slots=True)
class Target:
    """A stream that this process is to serve."""

    stream: StreamName
    lane: Lane


class Duties(Component):
    """Keeps an election for every shard of every lane; `on_gain` is called for each one won."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        store: LeaseStore,
        holder: str,
        on_gain: Callable[[], None],
        settings: ElectionSettings | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._pool = pool
        self._store = store
        self._holder = holder
        self._on_gain = on_gain
        self._settings = settings
        self._clock = clock or SystemClock()
        self._lanes: Mapping[str, Lane] = {}
        self._elections: dict[Duty, Election] = {}
        self._loop = Loop("relay-duties", self.refresh, LoopSettings(REFRESH_SECONDS))

    def targets(self, queues: Iterable[tuple[str, str]]) -> list[Target]:
        """The streams of these queues, as lane and owner, whose shard this process leads."""
        return [
            Target(StreamName(Queue(lane, owner), shard), self._lanes[lane])
            for lane, owner in queues
            if lane in self._lanes
            for shard in range(self._lanes[lane].shards)
            if self._leads(Duty(lane, shard))
        ]

    @property
    def all(self) -> frozenset[Duty]:
        """Every shard of every lane, whoever leads it; empty before the lanes are known."""
        return frozenset(self._elections)

    async def refresh(self) -> Pass:
        """Read the lanes; stand for election for new shards and step down from old ones."""
        async with acquire(self._pool) as connection:
            self._lanes = await load_lanes(connection)
        wanted = {
            Duty(lane.name, shard) for lane in self._lanes.values() for shard in range(lane.shards)
        }
        for duty in wanted - self._elections.keys():
            await self._stand_for(duty)
        for duty in self._elections.keys() - wanted:
            await self._elections.pop(duty).stop()
        return Pass()

    async def wait_leading(self, duty: Duty) -> None:
        """Return once this process leads the shard; KeyError if there is none such."""
        await self._elections[duty].leadership.wait_leader()

    async def on_start(self) -> None:
        """Stand for election; the first win comes soon after."""
        try:
            await self.refresh()
            await self._loop.start()
        except BaseException:
            await self._step_down()
            raise

    async def on_stop(self) -> None:
        """Step down from everything, so that another relay takes over at once."""
        await self._loop.stop()
        await self._step_down()

    async def _step_down(self) -> None:
        elections = list(self._elections.values())
        self._elections.clear()
        async with asyncio.TaskGroup() as tasks:
            for election in elections:
                tasks.create_task(election.stop())

    def _leads(self, duty: Duty) -> bool:
        election = self._elections.get(duty)
        return election is not None and election.leadership.is_leader

    async def _stand_for(self, duty: Duty) -> None:
        election = Election(str(duty), self._holder, self._store, self._settings, clock=self._clock)
        election.leadership.on_change(partial(self._changed, duty))
        self._elections[duty] = election
        await election.start()

    def _changed(self, duty: Duty, leads: bool) -> None:
        LEADING.labels(duty.lane, str(duty.shard)).set(leads)
        if leads:
            self._on_gain()
