"""Asks whether entries will still reach a worker.

An entry does so while it stands before its group's last delivered one, or is pending with some
consumer. One that was delivered and is pending with nobody is an orphan: XGROUP DELCONSUMER, by
hand or in a race, leaves such. It would stand there for ever, and its step with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perdure_runtime.fail_points import declare
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from perdure_streams.errors import classified
from perdure_streams.message import BrokenEntry, Hint, decode
from perdure_streams.names import GROUP, StreamName
from perdure_streams.replies import RawEntry, read_entries

DROP_ORPHANS = declare("streams.drop_orphans")


async def find_deliverable(
    client: Redis, stream: StreamName, entry_ids: Sequence[str]
) -> dict[str, Hint]:
    """The hints of those ids that will still reach a worker; orphans among them are removed.

    Raises Unavailable, STREAMS_UNAVAILABLE.
    """
    if not entry_ids:
        return {}
    with classified():
        last_delivered, entries, pending = await _look(client, stream, entry_ids)
        orphans = [
            entry.entry_id
            for entry in entries
            if _order(entry.entry_id) <= last_delivered and entry.entry_id not in pending
        ]
        if orphans:
            async with DROP_ORPHANS.around():
                await client.xdel(str(stream), *orphans)
    return dict(_hints(entry for entry in entries if entry.entry_id not in orphans))


_Order = tuple[int, int]
_NOTHING_DELIVERED = (0, 0)


async def _look(
    client: Redis, stream: StreamName, entry_ids: Sequence[str]
) -> tuple[_Order, list[RawEntry], set[str]]:
    """What was delivered last, the entries that are there, and which of the ids are pending.

    All of one moment: between two commands an entry may be delivered or settled.
    """
    key = str(stream)
    async with client.pipeline(transaction=True) as pipeline:
        pipeline.xinfo_groups(key)
        for entry_id in entry_ids:
            pipeline.xrange(key, min=entry_id, max=entry_id)
            pipeline.xpending_range(key, GROUP, entry_id, entry_id, 1)
        groups, *answers = await pipeline.execute(raise_on_error=False)
    entries = [entry for answer in answers[::2] for entry in read_entries(_checked(answer))]
    last_delivered = _last_delivered(groups)
    if last_delivered is None:
        return _NOTHING_DELIVERED, entries, set()
    pending = {one["message_id"].decode() for answer in answers[1::2] for one in _checked(answer)}
    return last_delivered, entries, pending


def _checked(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _last_delivered(groups: Any) -> _Order | None:
    """The group's last delivered id; None without stream or group, from whose 0 all will come."""
    if isinstance(groups, ResponseError):
        return None
    ids = [group["last-delivered-id"] for group in groups if group["name"] == GROUP.encode()]
    return _order(ids[0].decode()) if ids else None


def _order(entry_id: str) -> _Order:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence)


def _hints(entries: Iterable[RawEntry]) -> Iterator[tuple[str, Hint]]:
    for entry in entries:
        try:
            yield entry.entry_id, decode(entry.fields or {})
        except BrokenEntry:
            continue
