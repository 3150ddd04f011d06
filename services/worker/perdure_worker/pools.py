"""Pools: slots that serve queues of their own, so that one kind of work never takes another's.

What a pool takes in a row stays in it: it offers a run's next step only to its own queues.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from perdure_runtime.clock import Clock
from perdure_runtime.errors import Unavailable
from perdure_runtime.lifecycle import Group
from perdure_runtime.logs import log_failure
from perdure_runtime.rpc.client import RpcClient
from perdure_streams.announce import Announcer
from perdure_streams.consumer import Consumer, Entry
from redis.asyncio import Redis

from perdure_worker.announcements import Announcements
from perdure_worker.begun import Begun
from perdure_worker.coordinator import Coordinator
from perdure_worker.intake import Intake
from perdure_worker.lanes import Lanes
from perdure_worker.leases import Renewals
from perdure_worker.offers import Offers
from perdure_worker.pool_plans import PoolPlan
from perdure_worker.reader import Reader
from perdure_worker.releases import Releases
from perdure_worker.reports import Reports
from perdure_worker.slots import Slots
from perdure_worker.steps import Executors, StepLimits, Steps

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all pools of a worker use: its name, its ways to others, and what runs steps."""

    worker: str
    redis: Redis
    client: RpcClient
    executors: Executors
    renewals: Renewals
    releases: Releases
    limits: StepLimits
    reclaim_idle: float
    max_items: int


class Pool:
    """The parts of one pool: what reads its queues, runs what it was handed out, and reports it."""

    def __init__(self, plan: PoolPlan, shared: Shared, clock: Clock) -> None:
        queues = [str(queue) for queue in plan.queues]
        coordinator = Coordinator(shared.client, shared.worker, queues, clock, shared.max_items)
        consumer = Consumer(shared.redis, (), shared.worker, clock=clock)
        self.reports = Reports(coordinator, clock)
        self.intake = Intake(coordinator, consumer, clock)
        self.steps = Steps(
            shared.executors, shared.renewals, self.reports, shared.releases, shared.limits, clock
        )
        self.slots = Slots(plan.slots)
        self._lanes = Lanes(coordinator, consumer, plan.queues, clock)
        self._begun = Begun(self.slots)
        self._reader = Reader(
            consumer,
            self.slots,
            self._begun,
            self._is_serving,
            self._take,
            shared.reclaim_idle,
            clock,
            leaves_room=plan.offers,
        )
        announcer = Announcer(shared.redis, shared.worker)
        self._announcements = Announcements(announcer, plan, self.slots, clock)
        self.slots.on_change(self._announcements.wake)
        self.slots.on_change(self._reader.wake)
        self._lanes.on_change(self._reader.wake)
        offers = Offers(
            coordinator, self._reader, self.slots, self._begun, self.steps.run_chain, clock
        )
        taking = (self._lanes, self._announcements, self._reader)
        self._taking = Group((*taking, offers) if plan.offers else taking)

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """The work that was begun and has not ended."""
        return self._begun.tasks

    async def take(self) -> None:
        """Begin to read."""
        await self._taking.start()

    async def take_no_more(self) -> None:
        """Read no more and begin nothing; what runs goes on."""
        self.steps.drain()
        await self._reader.drain()
        try:
            await self._taking.stop()
            await self._announcements.withdraw()
        except Unavailable as trouble:
            # The announcement runs out by itself.
            log_failure(_logger, "worker.not_withdrawn", trouble)

    def _is_serving(self) -> bool:
        return self._lanes.are_known

    async def _take(self, entry: Entry) -> None:
        await self.intake.take(entry, self.steps.run_chain)
