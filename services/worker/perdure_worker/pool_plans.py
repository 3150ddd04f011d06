"""Which pools a worker has, as its settings say: their slots and their queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perdure import Handler
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_streams.names import Queue

ONLY_POOL = "all"
"""Name of the pool of a worker that is told of none."""

SHARED_OWNER = "shared"
MAX_SLOTS = 10_000

MAX_OFFERING = 16
"""Pools of a worker that make offers at most; a stream serves four times as many calls at once."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """How many steps of which queues run at once; no queue is in two pools.

    `offers`: while it has nothing to do it waits for steps at the coordinator too.
    """

    name: str
    slots: int
    queues: tuple[Queue, ...]
    offers: bool = False

    def __str__(self) -> str:
        """The form in which it is asked for."""
        return " ".join((self.name, str(self.slots), *map(str, self.queues)))

    @classmethod
    def parse(cls, text: str) -> PoolPlan:
        """Read `name slots lane:owner ...`; ValueError with what is wrong."""
        name, _, rest = text.strip().partition(" ")
        slots, _, queues = rest.strip().partition(" ")
        if not slots.isdecimal() or not 1 <= int(slots) <= MAX_SLOTS or not queues.strip():
            raise ValueError(
                f"a pool is written `name slots lane:owner ...`, with 1 to {MAX_SLOTS} slots, "
                f"not {text!r}"
            )
        return cls(name, int(slots), tuple(Queue.parse(queue) for queue in queues.split()))


def pool_plans(pools: Sequence[str], queues: Sequence[str], slots: int) -> list[PoolPlan]:
    """Return the pools that are asked for, else one of `slots` that serves `queues`.

    Raises ValueError with what is wrong.
    """
    if not pools:
        return [PoolPlan(ONLY_POOL, slots, tuple(Queue.parse(queue) for queue in queues))]
    plans = [PoolPlan.parse(pool) for pool in pools]
    names = [plan.name for plan in plans]
    served = [queue for plan in plans for queue in plan.queues]
    for what, found in (("pool", names), ("queue", [str(queue) for queue in served])):
        if twice := sorted({one for one in found if found.count(one) > 1}):
            raise ValueError(f"the {what} {twice[0]} is named twice")
    return plans


def serving(plans: Sequence[PoolPlan], handlers: Mapping[str, Handler]) -> list[PoolPlan]:
    """Return the pools that serve something; without handlers orgs' queues are left to others."""
    if handlers:
        return list(plans)
    shared = [
        replace(plan, queues=tuple(q for q in plan.queues if q.owner == SHARED_OWNER))
        for plan in plans
    ]
    return [plan for plan in shared if plan.queues]


def offering(plans: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return the pools with those marked that make offers.

    One with a single slot keeps it for what the streams bring. Offers are calls that wait on the
    stream which all calls share, so a worker of very many pools makes some only.
    """
    able = [plan for plan in plans if plan.slots > 1][:MAX_OFFERING]
    return [replace(plan, offers=plan in able) for plan in plans]


def thread_count(threads: int, plans: Sequence[PoolPlan], handlers: Mapping[str, Handler]) -> int:
    """Return how many threads `def` handlers get: one for each slot, unless told otherwise.

    Raises InvalidArgument, CONFIG_INVALID, for fewer than slots: a step would be leased and wait.
    """
    if all(handler.is_async for handler in handlers.values()):
        return 1
    slots = sum(plan.slots for plan in plans)
    if threads and threads < slots:
        problem = (
            f"{threads} threads are less than the {slots} slots, so a step that was handed out "
            "could wait for a thread: leave PERDURE_WORKER_THREADS out, or lower the slots"
        )
        raise InvalidArgument(
            problem,
            reason=Reason.CONFIG_INVALID,
            violations=[FieldViolation("threads", problem)],
        )
    return threads or slots
