"""The relay's side of a stream: adding hints, and asking whether Redis remembers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perdure_runtime.fail_points import declare
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.typing import EncodableT

from perdure_streams.announce import Announced, Hearing
from perdure_streams.errors import STREAM_GONE, classified, unavailable
from perdure_streams.groups import make_group
from perdure_streams.message import Hint, encode
from perdure_streams.names import Queue, StreamName
from perdure_streams.turn import Turn

XADD = declare("streams.xadd")
REMEMBER = declare("streams.remember")

NOBODYS = Turn()

_ADD = """
local ids = {}
local place = 2
while place <= #ARGV do
    local last = place + tonumber(ARGV[place])
    local id = redis.call('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(ARGV, place + 1, last))
    if not id then
        return false
    end
    ids[#ids + 1] = id
    place = last + 1
end
redis.call('SET', KEYS[2], ARGV[1])
return ids
"""
"""Adds hints to stream KEYS[1] and keeps turn ARGV[1] in KEYS[2].

Of each hint ARGV holds how many texts follow, then its fields. One command in place of a hundred:
to write and to read one costs the relay as much as all else that it does for a row.
"""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream holds: entries that are not settled, whether Redis kept its memory, a turn."""

    depth: int
    remembered: bool
    turn: Turn = NOBODYS


class Producer:
    """Adds to streams; remembers no more of them than who announced room for their queues."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._hearing = Hearing(client)
        self._add = client.register_script(_ADD)

    async def states(self, streams: Sequence[StreamName]) -> list[StreamState]:
        """The state of each stream, in one round trip.

        Raises Unavailable, STREAMS_UNAVAILABLE, as all methods here do.
        """
        if not streams:
            return []
        with classified():
            async with self._client.pipeline(transaction=False) as pipeline:
                _ask(pipeline, streams)
                return _states(iter(await pipeline.execute()), len(streams))

    async def look(
        self, streams: Sequence[StreamName]
    ) -> tuple[list[StreamState], dict[Queue, Announced]]:
        """The state of each stream, and what is announced for their queues.

        One round trip, unless there are other workers than at the last look.
        """
        if not streams:
            return [], {}
        with classified():
            async with self._client.pipeline(transaction=False) as pipeline:
                _ask(pipeline, streams)
                self._hearing.ask(pipeline, sorted({stream.queue for stream in streams}))
                answers = iter(await pipeline.execute())
        states = _states(answers, len(streams))
        return states, await self._hearing.hear(answers)

    async def publish(
        self, stream: StreamName, hints: Sequence[Hint], turn: Turn = NOBODYS
    ) -> list[str]:
        """Add hints, all or none, and return their entry ids; `turn` is whose it is after them.

        A stream that is gone is not made anew: it would stand there without its group (F086). The
        caller gets Unavailable, trouble `stream_gone`, and recovers the stream first.
        """
        texts: list[EncodableT] = [turn.encode()]
        for hint in hints:
            fields = encode(hint)
            texts.append(2 * len(fields))
            for name, value in fields.items():
                texts += (name, value)
        with classified():
            async with XADD.around():
                ids = await self._add([str(stream), stream.turn_key], texts)
        if ids is None:
            raise unavailable(f"the stream {stream} is gone", STREAM_GONE)
        return [entry_id.decode() for entry_id in ids]

    async def begin_memory(self, stream: StreamName) -> None:
        """Make stream and group, then set the memory key.

        To be called once nothing counts on what Redis may have lost: from here on the key says
        that every entry which is not in the stream was settled.
        """
        await make_group(self._client, stream)
        with classified():
            async with REMEMBER.around():
                await self._client.set(stream.memory_key, "1")

    async def remove(self, streams: Sequence[StreamName]) -> int:
        """Remove streams with all that stands beside them; return how many there were."""
        removed = 0
        with classified():
            for stream in streams:
                beside = (stream.memory_key, stream.turn_key)
                removed += int(await self._client.exists(str(stream)))
                await self._client.unlink(str(stream), *beside)
        return removed


def _ask(pipeline: Pipeline, streams: Sequence[StreamName]) -> None:
    for stream in streams:
        pipeline.xlen(str(stream))
        pipeline.exists(stream.memory_key)
        pipeline.get(stream.turn_key)


def _states(answers: Iterator[Any], count: int) -> list[StreamState]:
    return [
        StreamState(int(next(answers)), bool(next(answers)), Turn.decode(next(answers)))
        for _ in range(count)
    ]
