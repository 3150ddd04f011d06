"""The bounded waits of tests: for what another process does, and for a rival that is blocked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

import asyncpg

T = TypeVar("T")

PATIENCE = 10.0
"""Default bound of a wait, in seconds."""

ENGINE_PATIENCE = 30.0
"""Bound of a wait, in seconds, for what several processes do together on a busy machine."""

INTERVAL = 0.02  # seconds between two looks

# The second in a queue waits for the first in it, which waits for the holder.
_BLOCKED = """
WITH RECURSIVE waiting AS MATERIALIZED (
    SELECT DISTINCT pid, pg_blocking_pids(pid) AS blockers FROM pg_locks WHERE NOT granted
), blocked (pid) AS (
    SELECT pid FROM waiting WHERE pg_backend_pid() = ANY (blockers)
    UNION
    SELECT w.pid FROM waiting AS w JOIN blocked AS b ON b.pid = ANY (w.blockers)
)
SELECT pid FROM blocked
"""


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]], *, within: float = PATIENCE, what: str = ""
) -> T: ...


@overload
async def eventually(
    predicate: Callable[[], T], *, within: float = PATIENCE, what: str = ""
) -> T: ...


async def eventually(
    predicate: Callable[[], object], *, within: float = PATIENCE, what: str = ""
) -> object:
    """Return the first truthy value of `predicate`, which may be async.

    Only for what another process does; inside the test's own process await the event itself.
    Raises AssertionError, with `what` was awaited and the last value, after `within` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if loop.time() > deadline:
            awaited = what or getattr(predicate, "__name__", "the condition")
            raise AssertionError(f"{awaited}: still {value!r} after {within:g} s")
        await asyncio.sleep(INTERVAL)


async def blocked_pids(holder: asyncpg.Connection) -> set[int]:
    """Return the backends that wait for `holder`, also behind others that do."""
    return {row["pid"] for row in await holder.fetch(_BLOCKED)}


async def wait_until_blocked(
    holder: asyncpg.Connection, *, count: int = 1, within: float = PATIENCE
) -> set[int]:
    """Return, as backend pids, the rivals that wait for `holder`, once there are `count` of them.

    So a race is made certain: hold a lock, start the rival, wait here, then let go.
    """

    async def enough() -> set[int]:
        pids = await blocked_pids(holder)
        return pids if len(pids) >= count else set()

    return await eventually(enough, within=within, what=f"{count} backends blocked")
