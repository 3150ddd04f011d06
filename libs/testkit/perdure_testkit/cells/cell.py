"""What a cell carries, and how long work takes in it: a server with a queue before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellSize:
    """What is taken of each cell, above all what was measured of one.

    Steps a second are those of its PostgreSQL, its scarcest part. `fill` is the share of them that
    is given away when load is placed, `high` the share above which something is moved away, and
    `split` the share of a cell from which on an org is spread over several by its slots.
    """

    steps_per_s: float
    step_ms: float
    fill: float = 0.6
    high: float = 0.75
    split: float = 0.5


def step_ms(size: CellSize, share: float) -> float:
    """Return the mean milliseconds of a step at a share of the capacity; infinite from 1 on.

    Its time alone, and its wait for the one place where commits queue (M/M/1).
    """
    if share >= 1:
        return math.inf
    service = 1000 / size.steps_per_s
    return size.step_ms + service * share / (1 - share)


def longest_backlog(size: CellSize, asked: Sequence[float]) -> float:
    """Return the most seconds that work lay behind, of steps a second asked minute by minute.

    What a minute cannot do waits in PostgreSQL and is done in the next.
    """
    backlog, longest = 0.0, 0.0
    for steps_per_s in asked:
        backlog = max(0.0, backlog + 60 * (steps_per_s - size.steps_per_s))
        longest = max(longest, backlog)
    return longest / size.steps_per_s


def catching_up(away_s: float, share: float) -> float:
    """Return the seconds until a cell that was away has done what was asked for meanwhile."""
    return math.inf if share >= 1 else away_s * share / (1 - share)
