"""How the relay learns what the workers have room for.

A worker says for each queue how many slots are free, in a key that dies with it, and tells a
channel when the number grew, so that the relay need not wait for its next tick (F072). The channel
may lose a word at any time; the relay's tick is the base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from perdure_streams.errors import classified
from perdure_streams.names import FREED_CHANNEL, Queue

ANNOUNCEMENT_TTL_MS = 4000
"""How long an announcement lives; a worker repeats it several times in that time."""

_WORKERS_TTL_MS = 10 * ANNOUNCEMENT_TTL_MS


@dataclass(frozen=True, slots=True)
class Announced:
    """What the live workers of a queue said: how many there are, and their free slots in all."""

    workers: int
    free: int


class Announcer:
    """One worker's voice."""

    def __init__(self, client: Redis, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._last: dict[Queue, int] = {}

    async def announce(self, free: Mapping[Queue, int]) -> None:
        """Say how many slots are free for each queue, until `ANNOUNCEMENT_TTL_MS` from now.

        To be called whenever a number changed and at least every quarter of that time. Raises
        Unavailable, STREAMS_UNAVAILABLE.
        """
        grown = [queue for queue, slots in free.items() if slots > self._last.get(queue, 0)]
        self._last = dict(free)
        with classified():
            async with self._client.pipeline(transaction=False) as pipeline:
                for queue, slots in free.items():
                    pipeline.sadd(queue.workers_key, self._worker)
                    pipeline.pexpire(queue.workers_key, _WORKERS_TTL_MS)
                    pipeline.set(queue.free_key(self._worker), slots, px=ANNOUNCEMENT_TTL_MS)
                for queue in grown:
                    pipeline.publish(FREED_CHANNEL, str(queue))
                await pipeline.execute()

    async def withdraw(self, queues: Iterable[Queue]) -> None:
        """Take back what was said of these queues; for a drain. Raises as `announce` does."""
        with classified():
            async with self._client.pipeline(transaction=False) as pipeline:
                for queue in queues:
                    self._last.pop(queue, None)
                    pipeline.srem(queue.workers_key, self._worker)
                    pipeline.delete(queue.free_key(self._worker))
                await pipeline.execute()


class Hearing:
    """Hears what is announced in a pipeline of the caller's, from the workers of the last time.

    Where others serve a queue than did then, or one is silent, that queue is asked about by itself.
    """

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._workers: dict[Queue, list[str]] = {}

    def ask(self, pipeline: Pipeline, queues: Sequence[Queue]) -> None:
        """Add the questions; `hear` takes the answers."""
        self._workers = {queue: self._workers.get(queue, []) for queue in queues}
        for queue, workers in self._workers.items():
            pipeline.smembers(queue.workers_key)
            for worker in workers:
                pipeline.get(queue.free_key(worker))

    async def hear(self, answers: Iterator[Any]) -> dict[Queue, Announced]:
        """Return what is announced for the queues asked about, by the next of `answers`.

        Raises Unavailable, STREAMS_UNAVAILABLE.
        """
        heard: dict[Queue, Announced] = {}
        for queue, expected in list(self._workers.items()):
            workers = _names(next(answers))
            values = [next(answers) for _ in expected]
            if workers == expected and None not in values:
                heard[queue] = _total(values)
            else:
                self._workers[queue] = workers
        others = [queue for queue in self._workers if queue not in heard]
        return heard | dict(zip(others, await announced(self._client, others), strict=True))


async def announced(client: Redis, queues: Sequence[Queue]) -> list[Announced]:
    """What is announced for each queue; workers whose word has run out are forgotten.

    Two round trips for any number of queues. Raises Unavailable, STREAMS_UNAVAILABLE.
    """
    if not queues:
        return []
    with classified():
        members = await _pipelined(client, lambda p: [p.smembers(q.workers_key) for q in queues])
        workers = [_names(found) for found in members]
        keys = [(q, worker) for q, of in zip(queues, workers, strict=True) for worker in of]
        values = await _pipelined(client, lambda p: [p.get(q.free_key(w)) for q, w in keys])
        said = dict(zip(keys, values, strict=True))
        silent = [key for key, value in said.items() if value is None]
        await _pipelined(client, lambda p: [p.srem(q.workers_key, w) for q, w in silent])
    return [
        _total([said[queue, worker] for worker in of])
        for queue, of in zip(queues, workers, strict=True)
    ]


def _names(members: Iterable[bytes]) -> list[str]:
    return sorted(member.decode() for member in members)


def _total(values: Iterable[bytes | None]) -> Announced:
    free = [max(0, int(value)) for value in values if value is not None]
    return Announced(len(free), sum(free))


async def _pipelined(client: Redis, add: Callable[[Pipeline], Sequence[object]]) -> list[Any]:
    async with client.pipeline(transaction=False) as pipeline:
        return await pipeline.execute() if add(pipeline) else []
