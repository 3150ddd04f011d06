"""The relay's side of a stream: adding hints, and asking whether Redis remembers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure_runtime.fail_points import declare
from redis.asyncio import Redis

from perdure_streams.errors import STREAM_GONE, classified, unavailable
from perdure_streams.groups import make_group
from perdure_streams.message import Hint, encode
from perdure_streams.names import StreamName
from perdure_streams.turn import Turn

XADD = declare("streams.xadd")
REMEMBER = declare("streams.remember")

NOBODYS = Turn()


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream holds: entries that are not settled, whether Redis kept its memory, a turn."""

    depth: int
    remembered: bool
    turn: Turn = NOBODYS


class Producer:
    """Adds to streams; holds no state of its own."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def states(self, streams: Sequence[StreamName]) -> list[StreamState]:
        """The state of each stream, in one round trip.

        Raises Unavailable, STREAMS_UNAVAILABLE, as all methods here do.
        """
        if not streams:
            return []
        with classified():
            async with self._client.pipeline(transaction=False) as pipeline:
                for stream in streams:
                    pipeline.xlen(str(stream))
                    pipeline.exists(stream.memory_key)
                    pipeline.get(stream.turn_key)
                answers = await pipeline.execute()
        return [
            StreamState(int(depth), bool(remembered), Turn.decode(turn))
            for depth, remembered, turn in zip(
                answers[::3], answers[1::3], answers[2::3], strict=True
            )
        ]

    async def publish(
        self, stream: StreamName, hints: Sequence[Hint], turn: Turn = NOBODYS
    ) -> list[str]:
        """Add hints, all or none, and return their entry ids; `turn` is whose it is after them.

        A stream that is gone is not made anew: it would stand there without its group (F086). The
        caller gets Unavailable, trouble `stream_gone`, and recovers the stream first.
        """
        with classified():
            async with XADD.around(), self._client.pipeline(transaction=True) as pipeline:
                for hint in hints:
                    pipeline.xadd(str(stream), encode(hint), nomkstream=True)
                pipeline.set(stream.turn_key, turn.encode())
                ids = (await pipeline.execute())[:-1]
        if any(entry_id is None for entry_id in ids):
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
