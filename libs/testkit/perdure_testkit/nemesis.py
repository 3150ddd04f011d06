"""Faults, and the passing of time that would follow them, for engines of tests.

A test that waited until Redis calls an entry idle, or until the lease of somebody dead has run out,
would wait seconds for nothing it can learn; these let that time have passed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from redis.asyncio import Redis

from perdure_testkit.place import Place

LONG_IDLE_MS = 24 * 3600 * 1000
PAGE = 1000

_LAPSE_LEADERSHIP = """
UPDATE leaders SET expires_at = clock_timestamp() WHERE split_part(duty, ':', 1) = $1
"""
_LAPSE_LEASES = """
UPDATE steps SET lease_expires_at = clock_timestamp() WHERE status = 'running'
"""


_LAPSE_EFFECTS = """
WITH lapsed AS (
    UPDATE effects SET lease_expires_at = clock_timestamp()
     WHERE status = 'in_flight' AND lease_expires_at IS NOT NULL
)
UPDATE timers SET due_at = clock_timestamp(), next_try = clock_timestamp()
 WHERE kind = 'effect_wait'
"""


async def lapse_leadership(place: Place, service: str) -> None:
    """Let the duties of a service's dead process be free for another."""
    await place.execute(_LAPSE_LEADERSHIP, service)


async def lapse_leases(place: Place) -> None:
    """Let the leases of all running steps have run out; for when every worker is dead."""
    await place.execute(_LAPSE_LEASES)


async def lapse_effects(place: Place) -> None:
    """Let the calls that are in flight under leases of their own be over; for when they are."""
    await place.execute(_LAPSE_EFFECTS)


async def age_pending_entries(place: Place) -> None:
    """Let every entry that was delivered and not settled look long idle, to be reclaimed."""
    async with place.redis() as client:
        async for key in client.scan_iter("perdure:*", _type="stream"):
            for group in await client.xinfo_groups(key):
                await _age(client, key, group["name"])


async def _age(client: Redis, key: Any, group: bytes) -> None:
    ids: defaultdict[Any, list[Any]] = defaultdict(list)
    for pending in await client.xpending_range(key, group, "-", "+", PAGE):
        ids[pending["consumer"]].append(pending["message_id"])
    for consumer, found in ids.items():
        await client.xclaim(key, group, consumer, 0, found, idle=LONG_IDLE_MS, justid=True)
