"""The settings of a lane."""

from __future__ import annotations

from dataclasses import dataclass

from perdure_machine.definition.model import RetryRule


@dataclass(frozen=True, slots=True)
class Lane:
    """A kind of work. Durations in seconds."""

    name: str
    shards: int  # streams that each queue of the lane is spread over
    stream_ceiling: int  # entries that one stream may hold at most
    hand_out: float  # the lease of a hand-out until its first renewal
    lease: float  # the lease after a renewal
    poison_limit: int  # losses after which a step fails as poison
    retry: RetryRule  # where the definition says nothing
