"""The parts that do the relay's work, put together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.election import ElectionSettings
from perdure_store.leaders import PostgresLeaseStore
from perdure_streams.producer import Producer
from redis.asyncio import Redis

from perdure_relay.dispatch import Dispatcher, DispatchSettings
from perdure_relay.duties import Duties
from perdure_relay.recovery import Recovery
from perdure_relay.retired import Retired


@dataclass(frozen=True, slots=True)
class Parts:
    """What a relay leads, how it sends, how it finds what was lost, and what it clears away."""

    duties: Duties
    dispatcher: Dispatcher
    recovery: Recovery
    retired: Retired


def make_parts(
    pool: asyncpg.Pool,
    client: Redis,
    holder: str,
    settings: DispatchSettings,
    *,
    on_gain: Callable[[], None] = lambda: None,
    election: ElectionSettings | None = None,
    clock: Clock | None = None,
    jitter: Callable[[], float] = random.random,
) -> Parts:
    """Make a relay that stands for election as `holder`, which no other process ever uses."""
    clock = clock or SystemClock()
    producer = Producer(client)
    duties = Duties(pool, PostgresLeaseStore(pool), holder, on_gain, election)
    recovery = Recovery(pool, client, producer, duties)
    dispatcher = Dispatcher(pool, producer, duties, recovery, settings, clock=clock, jitter=jitter)
    return Parts(duties, dispatcher, recovery, Retired(pool, producer, duties, clock))
