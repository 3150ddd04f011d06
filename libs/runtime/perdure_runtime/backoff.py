"""How long to wait before the next try: exponential with jitter, clamped before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIN_BASE_SECONDS = 1e-6
MAX_CAP_SECONDS = 1e9


def full_jitter(attempt: int, base: float, factor: float, cap: float, jitter: float) -> float:
    """Return the seconds to wait after failure number `attempt`, counted from 1.

        ceiling(n) = min(cap, base * factor ** min(n - 1, exponent at which cap is reached))
        wait(1)    = min(base, cap)
        wait(n)    = min(cap, base + jitter * (ceiling(n) - base))

    The first retry comes after exactly `base` (F046); later ones lie anywhere between `base` and
    the ceiling, so that many failures of one moment spread. The exponent is clamped before it is
    used (F039, F042), the result after the jitter (F040). With base 1, factor 2, cap 60 and jitter
    0.5 the waits are 1, 1.5, 2.5, 4.5, 8.5, 16.5, 30.5, 30.5, ... seconds.

    `jitter` lies in [0, 1) and is given, so that the function stays pure. A `base` of 0 retries at
    once, always. Raises ValueError when an argument is out of range.
    """
    _check(attempt, base, factor, cap, jitter)
    if base >= cap or base == 0.0:
        return min(base, cap)
    if attempt == 1:
        return base
    return min(cap, base + jitter * (_ceiling(attempt, base, factor, cap) - base))


def growing(attempt: int, base: float, factor: float, cap: float) -> float:
    """Return wait number `attempt`, counted from 1, without jitter, in seconds.

    It is `base * factor ** (attempt - 1)`, at most `cap`. Raises ValueError when an argument is out
    of range.
    """
    _check(attempt, base, factor, cap, 0.0)
    if base >= cap or base == 0.0:
        return min(base, cap)
    return _ceiling(attempt, base, factor, cap)


@dataclass(frozen=True, slots=True)
class Backoff:
    """A policy: `base` and `cap` in seconds, `factor` per attempt."""

    base: float = 0.05
    factor: float = 2.0
    cap: float = 5.0

    def seconds(self, attempt: int, jitter: float) -> float:
        """The wait after failure number `attempt`, counted from 1; see `full_jitter`."""
        return full_jitter(attempt, self.base, self.factor, self.cap, jitter)


def _ceiling(attempt: int, base: float, factor: float, cap: float) -> float:
    if factor == 1.0:
        return base
    reached = (math.log(cap) - math.log(base)) / math.log(factor)
    if attempt - 1 >= reached:
        return cap
    return min(cap, base * factor ** (attempt - 1))


def _check(attempt: int, base: float, factor: float, cap: float, jitter: float) -> None:
    if attempt < 1:
        raise ValueError(f"attempt counts from 1, is {attempt}")
    if base != 0.0 and not MIN_BASE_SECONDS <= base <= MAX_CAP_SECONDS:
        raise ValueError(f"base must be 0 or lie in [{MIN_BASE_SECONDS}, {MAX_CAP_SECONDS}]")
    if not 1.0 <= factor < math.inf:
        raise ValueError(f"factor must be at least 1, is {factor}")
    if not 0.0 <= cap <= MAX_CAP_SECONDS:
        raise ValueError(f"cap must lie in [0, {MAX_CAP_SECONDS}], is {cap}")
    if not 0.0 <= jitter < 1.0:
        raise ValueError(f"jitter must lie in [0, 1), is {jitter}")
