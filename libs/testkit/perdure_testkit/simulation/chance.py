"""Chance under a seed: the same names under the same seed always give the same numbers.

Each purpose has numbers of its own, so that leaving one thing out of a simulation changes as little
as possible of the rest; shrinking lives on that.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def fraction(seed: int, *purpose: object) -> float:
    """Return the number in [0, 1) that belongs to a purpose."""
    name = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest()) / 2**56


def stream(seed: int, *purpose: object) -> Random:
    """Return a source of numbers for a purpose."""
    return Random("/".join(map(str, (seed, *purpose))))
