"""The names of everything that stands in Redis.

    perdure:{lane:owner:shard}           a stream of hints
    perdure:{lane:owner:shard}:memory    there as long as Redis remembers what it was sent
    perdure:{lane:owner:shard}:turn      whose turn it is to be sent to it
    perdure:{lane:owner}:workers         who serves a queue
    perdure:{lane:owner}:free:WORKER     free slots of one of them, for a short time
    perdure:freed                        channel on which a freed slot is told

The braces are a cluster's hash tag: what one command touches lies on one node. A lane has no colon
(a constraint of its table) and a shard is a number, so an owner may hold any character.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "workers"
"""The one consumer group of every stream."""

FREED_CHANNEL = "perdure:freed"


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """Work of one lane for one owner: `shared`, or the org for its own handlers."""

    lane: str
    owner: str

    def __str__(self) -> str:
        """The form that travels, `lane:owner`."""
        return f"{self.lane}:{self.owner}"

    @classmethod
    def parse(cls, text: str) -> Queue:
        """Read `lane:owner`; ValueError if either is missing."""
        lane, _, owner = text.partition(":")
        if not lane or not owner:
            raise ValueError(f"a queue is written lane:owner, not {text!r}")
        return cls(lane, owner)

    def streams(self, shards: int) -> tuple[StreamName, ...]:
        """All streams of this queue."""
        return tuple(StreamName(self, shard) for shard in range(shards))

    @property
    def workers_key(self) -> str:
        """The set of workers that announced themselves."""
        return f"perdure:{{{self}}}:workers"

    def free_key(self, worker: str) -> str:
        """The key that holds a worker's free slots."""
        return f"perdure:{{{self}}}:free:{worker}"


@dataclass(frozen=True, slots=True, order=True)
class StreamName:
    """The stream of one shard of a queue."""

    queue: Queue
    shard: int

    def __str__(self) -> str:
        """The key of the stream."""
        return f"perdure:{{{self.queue}:{self.shard}}}"

    @property
    def memory_key(self) -> str:
        """The key whose absence says that Redis lost what this stream held."""
        return f"{self}:memory"

    @property
    def turn_key(self) -> str:
        """The key that holds whose turn it is."""
        return f"{self}:turn"
