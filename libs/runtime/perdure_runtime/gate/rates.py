"""How often each key may call one door: a token bucket and a bound on calls at once, per key.

They are this process' own: with three doors a key has three times the rate. A flood with one key
is refused before anything is read for it, and takes the room of no other key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, ResourceExhausted

MAX_KEYS = 10_000
"""Keys whose buckets are kept; that of the key that called longest ago is forgotten, so is full."""

BUSY_RETRY_SECONDS = 1.0
"""What a key is told to wait whose calls at once are all in use."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` calls on average, and `burst` at once beyond that."""

    per_second: float
    burst: int


UNLIMITED = Rate(1e9, 10**9)
"""Of a door that the network alone guards."""


class Bucket:
    """Tokens that come back at a rate; a call takes one."""

    __slots__ = ("_at", "_tokens", "calls")

    def __init__(self, rate: Rate, now: float) -> None:
        self._tokens = float(rate.burst)
        self._at = now
        self.calls = 0

    def take(self, rate: Rate, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one. Time never runs backwards."""
        gained = max(now - self._at, 0.0) * rate.per_second
        self._tokens = min(self._tokens + gained, float(rate.burst))
        self._at = max(now, self._at)
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / rate.per_second


class Rates:
    """The buckets of the keys that call; `at_once` is how many calls one key may have open."""

    def __init__(self, default: Rate, at_once: int, clock: Clock | None = None) -> None:
        self._default = default
        self._at_once = at_once
        self._clock = clock or SystemClock()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    @contextmanager
    def counted(self, key: str, rate: Rate | None) -> Iterator[None]:
        """Have a call of `key` be open while the context lasts.

        Raises ResourceExhausted, RATE_LIMITED, with the wait that helps.
        """
        bucket = self._take(key, rate or self._default)
        bucket.calls += 1
        try:
            yield
        finally:
            bucket.calls -= 1

    def _take(self, key: str, rate: Rate) -> Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(rate, now)
            self._forget()
        self._buckets.move_to_end(key)
        if bucket.calls >= self._at_once:
            raise _refusal(key, "calls at once", BUSY_RETRY_SECONDS)
        wait = bucket.take(rate, now)
        if wait:
            raise _refusal(key, "rate", wait)
        return bucket

    def _forget(self) -> None:
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)


def _refusal(key: str, cause: str, wait: float) -> ResourceExhausted:
    return ResourceExhausted(
        f"the key has used up its {cause}",
        reason=Reason.RATE_LIMITED,
        metadata={"scope": "key", "key_id": key, "cause": cause},
        retry_after=wait,
    )
