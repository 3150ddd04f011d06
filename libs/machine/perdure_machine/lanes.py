"""The settings of a lane, and what they may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perdure_machine.definition.model import IO_RETRY, RetryRule

BUILT_IN = frozenset({"io", "slow"})
"""Lanes that are there from the start and cannot be removed."""

MAX_SHARDS = 256
MAX_CEILING = 100_000
MIN_HAND_OUT = 10.0
"""A worker asks for a step for up to 8 s under one lease id; the hand-out outlasts that."""
MAX_HAND_OUT = 60.0
MAX_LEASE = 3600.0
MAX_POISON_LIMIT = 100
MAX_RETRIES = 1000
MIN_WAIT = 0.001
MAX_WAIT = 7 * 86_400.0
MAX_FACTOR = 100.0

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


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


def new_lane(name: str) -> Lane:
    """A lane as it is where an operator says nothing: like `io`."""
    return Lane(
        name=name,
        shards=1,
        stream_ceiling=1000,
        hand_out=10.0,
        lease=30.0,
        poison_limit=3,
        retry=IO_RETRY,
    )


def lane_problems(lane: Lane) -> Iterator[tuple[str, str]]:
    """What is wrong with a lane: the field, as operators call it, and what it must be."""
    if not _NAME.fullmatch(lane.name):
        text = "must be a small letter, then at most 39 small letters, digits, _ or -"
        yield "lane", text
    for field, value, least, most in (
        ("shards", lane.shards, 1, MAX_SHARDS),
        ("stream_ceiling", lane.stream_ceiling, 1, MAX_CEILING),
        ("hand_out", lane.hand_out, MIN_HAND_OUT, MAX_HAND_OUT),
        ("lease", lane.lease, MIN_HAND_OUT, MAX_LEASE),
        ("poison_limit", lane.poison_limit, 1, MAX_POISON_LIMIT),
        ("retry_max", lane.retry.max, 0, MAX_RETRIES),
        ("retry_base", lane.retry.base, MIN_WAIT, MAX_WAIT),
        ("retry_factor", lane.retry.factor, 1, MAX_FACTOR),
        ("retry_cap", lane.retry.cap, MIN_WAIT, MAX_WAIT),
    ):
        if not least <= value <= most:
            yield field, f"must lie between {least:g} and {most:g}, is {value:g}"
    if lane.retry.cap < lane.retry.base:
        yield "retry_cap", "must not be less than retry_base"
