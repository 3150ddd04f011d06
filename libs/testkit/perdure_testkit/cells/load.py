"""Orgs and what each of them asks for: a few ask for much, most for little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perdure_testkit.simulation.chance import fraction, stream

DRIFT = 0.25
"""How far an org's share wanders from one stage to the next, as the deviation of its logarithm."""

BURSTS = 0.02
"""The share of minutes in which an org asks for a multiple of its mean."""

BURST = 5.0


@dataclass(frozen=True, slots=True)
class Org:
    """An org, and the steps a second that it asks for on average."""

    number: int
    steps_per_s: float


def skewed(seed: int, count: int, steps_per_s: float, exponent: float, stage: int) -> list[Org]:
    """Return `count` orgs that ask for so many steps a second together, by Zipf's law.

    An org keeps its rank from stage to stage, and wanders a little. Raises ValueError without any.
    """
    if count < 1:
        raise ValueError("a load needs an org")
    weights = [_weight(seed, number, exponent, stage) for number in range(count)]
    whole = math.fsum(weights)
    return [Org(number, steps_per_s * weight / whole) for number, weight in enumerate(weights)]


def bursts(seed: int, number: int, minutes: int) -> Sequence[float]:
    """Return for each minute the multiple of its mean that an org asks for; their mean is 1."""
    rest = (1 - BURSTS * BURST) / (1 - BURSTS)
    return [
        BURST if fraction(seed, "burst", number, minute) < BURSTS else rest
        for minute in range(minutes)
    ]


def _weight(seed: int, number: int, exponent: float, stage: int) -> float:
    wandered = math.fsum(
        stream(seed, "drift", number, past).gauss(0, DRIFT) for past in range(stage)
    )
    rank: float = number + 1
    return math.pow(rank, -exponent) * math.exp(wandered)
