"""The outbox as the relay sees it: what is ready, what was sent, and the marks between the two.

Each function is one short statement that commits by itself; none is held open across Redis (R13).
The relay writes state, sent_at and entry_id only, which no decision about a run reads (R1). All
raise what `perdure_store.classify` makes of the driver's errors.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure_runtime.fail_points import declare

from perdure_store.classify import classified
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import write

MARK_SENT = declare("store.outbox_mark_sent")
READY_AGAIN = declare("store.outbox_ready_again")

MAX_HEAPS = 32
"""Jobs and priorities of one org that a pick looks at, which bounds what it costs."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a queue."""

    lane: str
    owner: str
    shard: int


@dataclass(frozen=True, slots=True)
class ReadyRow:
    """A row that waits to be sent; `capacity`: its step takes capacity."""

    outbox_id: int
    org: str
    run_id: uuid.UUID
    step: int
    traceparent: str | None
    job: int = 0
    capacity: bool = False


@dataclass(frozen=True, slots=True)
class ReadyOrg:
    """An org that has ready rows, and how many it may send in each of its turns."""

    org: str
    weight: int


@dataclass(frozen=True, slots=True)
class Wish:
    """At most `share` rows of an org; of its jobs those after `after_job` are first."""

    org: str
    share: int
    after_job: int


@dataclass(frozen=True, slots=True)
class SentRow:
    """A row that was sent as the entry `entry_id` and has not been leased."""

    outbox_id: int
    run_id: uuid.UUID
    step: int
    entry_id: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """The steps of a queue that wait, ready or sent, and those that workers hold."""

    waiting: int
    running: int


async def ready_queues(connection: Connection) -> list[tuple[str, str]]:
    """Lane and owner of every queue that has ready rows."""
    return await _queues(connection, "outbox.ready_queues")


async def few_ready(
    connection: Connection, limit: int
) -> Mapping[Shard, Sequence[ReadyRow]] | None:
    """Every ready row by its shard, each org's by priority; None if there are more than `limit`.

    Rows of a lane that does not exist count and are left out.
    """
    with classified():
        rows = await connection.fetch(sql("outbox.few_ready"), limit + 1)
    if len(rows) > limit:
        return None
    found: defaultdict[Shard, list[ReadyRow]] = defaultdict(list)
    for lane, owner, shard, *row in rows:
        if shard is not None:
            found[Shard(lane, owner, shard)].append(ReadyRow(*row))
    return found


async def sent_queues(connection: Connection) -> list[tuple[str, str]]:
    """Lane and owner of every queue that has sent rows."""
    return await _queues(connection, "outbox.sent_queues")


async def ready_orgs(
    connection: Connection, shard: Shard, first: str, limit: int
) -> list[ReadyOrg]:
    """At most `limit` orgs with ready rows in the shard's queue, from `first` on.

    They wrap around, so that a rotating `first` reaches every org. An org may have rows in other
    shards only.
    """
    with classified():
        rows = await connection.fetch(
            sql("outbox.ready_orgs"), shard.lane, shard.owner, first, limit
        )
    return [ReadyOrg(*row) for row in rows]


async def pick_ready(
    connection: Connection, shard: Shard, wanted: Sequence[Wish]
) -> list[ReadyRow]:
    """Ready rows of the orgs wanted, in their order: by priority, jobs in turn, then age.

    Of an org that has more than `MAX_HEAPS` jobs waiting, those come that are first in turn.
    """
    with classified():
        rows = await connection.fetch(
            sql("outbox.pick_ready"),
            shard.lane,
            shard.owner,
            shard.shard,
            [wish.org for wish in wanted],
            [wish.share for wish in wanted],
            [wish.after_job for wish in wanted],
            MAX_HEAPS,
        )
    return [ReadyRow(*row) for row in rows]


async def mark_sent(
    connection: Connection, outbox_ids: Sequence[int], entry_ids: Sequence[str]
) -> int:
    """Mark rows as sent with their entries, and return how many were still ready.

    A row that is locked at this moment stays ready and may be sent twice, which is harmless.
    """
    marked = await write(connection, MARK_SENT, sql("outbox.mark_sent"), outbox_ids, entry_ids)
    return len(marked)


async def sent_rows(connection: Connection, shard: Shard, after: int, limit: int) -> list[SentRow]:
    """At most `limit` sent rows of the shard with an id above `after`, by id."""
    with classified():
        rows = await connection.fetch(
            sql("outbox.sent_rows"), shard.lane, shard.owner, shard.shard, after, limit
        )
    return [SentRow(*row) for row in rows]


async def ready_again(connection: Connection, rows: Sequence[SentRow]) -> int:
    """Make rows ready whose entries are gone, and return how many still carried those entries."""
    if not rows:
        return 0
    made = await write(
        connection,
        READY_AGAIN,
        sql("outbox.ready_again"),
        [row.outbox_id for row in rows],
        [row.entry_id for row in rows],
    )
    return len(made)


async def oldest_ready(connection: Connection) -> dict[tuple[str, str], float]:
    """Age in seconds of the oldest ready row of each queue, as lane and owner, that has one."""
    with classified():
        rows = await connection.fetch(sql("outbox.oldest_ready"))
    return {(row["lane"], row["owner"]): row["seconds"] for row in rows}


async def backlog(
    connection: Connection, queues: Sequence[tuple[str, str]], limit: int
) -> list[Backlog]:
    """How much work each queue holds; what waits and what runs is counted up to `limit`."""
    lanes, owners = [lane for lane, _ in queues], [owner for _, owner in queues]
    with classified():
        rows = await connection.fetch(sql("outbox.backlog"), lanes, owners, limit)
    return [Backlog(min(row["waiting"], limit), row["running"]) for row in rows]


async def oldest(connection: Connection) -> float:
    """Age in seconds of the oldest row of any state; 0 when there is none."""
    with classified():
        return await connection.fetchval(sql("outbox.oldest")) or 0.0


async def _queues(connection: Connection, query: str) -> list[tuple[str, str]]:
    with classified():
        rows = await connection.fetch(sql(query))
    return [(row["lane"], row["owner"]) for row in rows]
