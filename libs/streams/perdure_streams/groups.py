"""The consumer group of a stream: made before its first use, again whenever it is missing."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from perdure_streams.errors import classified
from perdure_streams.names import GROUP, StreamName

_ALREADY_THERE = "BUSYGROUP"


async def make_group(client: Redis, stream: StreamName) -> None:
    """Make stream and group unless they are there.

    The group begins at 0, so that what was added before it existed is delivered too (F087, F089).
    """
    with classified():
        try:
            await client.xgroup_create(str(stream), GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith(_ALREADY_THERE):
                raise


async def forget_consumers(client: Redis, stream: StreamName, idle_ms: int) -> int:
    """Remove members that hold nothing and did not read for `idle_ms`; return how many.

    Each start of a worker makes a member that would stand there for ever. One that reads at this
    very moment loses its membership of the entry, which `lookup` finds.
    """
    with classified():
        members = await client.xinfo_consumers(str(stream), GROUP)
        gone = [
            member["name"]
            for member in members
            if member["pending"] == 0 and member["idle"] >= idle_ms
        ]
        for name in gone:
            await client.xgroup_delconsumer(str(stream), GROUP, name)
    return len(gone)
