"""What goes wrong, as a list of occasions: so a schedule of faults can be read and made shorter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from perdure_testkit.simulation.chance import fraction, stream

CALM_AFTER = 90.0
"""Seconds after which nothing goes wrong any more."""


class Fault(StrEnum):
    """One thing that can go wrong, or that somebody does unforeseen."""

    LOSE_ENTRY = "the queue loses an entry"
    REPEAT_ENTRY = "the queue delivers an entry twice"
    DELAY_ENTRY = "the queue holds an entry back, so that later ones overtake it"
    LOSE_QUEUE = "the queue loses everything"
    RELAY_FORGETS = "the relay dies after it published and before it marked that"
    LOSE_REQUEST = "a request is lost on its way"
    REPEAT_REQUEST = "a request arrives twice, the second time late"
    DELAY_REQUEST = "a request takes long"
    CRASH_BEFORE_WRITE = "the coordinator dies before it wrote"
    CRASH_AFTER_WRITE = "the coordinator dies after it wrote and before it answered"
    DIE = "a worker dies"
    PAUSE = "a worker pauses for longer than its lease"
    RELEASE = "a worker drains and hands its step back"
    LOSE_RENEWAL = "a renewal is lost"
    REPEAT_REPORT = "a worker sends its report once more, much later"
    IGNORE_LOSS = "a worker does not hear that its lease is lost and works on"
    PROVIDER_BREAKS = "the provider performs the call and its answer is lost"
    PROVIDER_REFUSES = "the provider refuses the call"
    LATE_TIMERS = "the timer service is away"
    REPEAT_TIMER = "the timer service sends a timer twice"
    EARLY_TIMER = "the timer service sends a timer that is not due"
    LATE_SWEEP = "the sweeper is away"
    SLOW_SWEEP = "the sweeper sends late what it found in time"
    REPEAT_SWEEP = "the sweeper sends what it found twice"
    REPEAT_START = "a client starts twice under one key"
    CANCEL = "a client cancels"
    RETRY_RUN = "somebody retries a run, which may not have failed, or not yet"
    HOLD = "a client pauses a run, and resumes it later"


@dataclass(frozen=True, slots=True, order=True)
class Injected:
    """The fault that strikes at its n-th occasion."""

    fault: Fault
    occasion: int

    def __str__(self) -> str:
        return f"{self.fault.name} #{self.occasion}: {self.fault}"


_SHARES = (0.15, 0.5, 0.9)
"""Which share of the kinds of faults a seed has."""

_RATES = (0.05, 0.12, 0.3)
"""At which share of its occasions a fault strikes."""

_SCALES = {Fault.LOSE_QUEUE: 0.3, Fault.DIE: 0.3, Fault.PAUSE: 0.7, Fault.SLOW_SWEEP: 2.5}
"""What has many occasions strikes more rarely, or nothing else would ever happen."""


class Faults:
    """Decides at each occasion whether a fault strikes; keeps what did.

    Each seed has some kinds of faults only, at rates of its own: a mix of everything hides what
    needs two of a kind. `only` replaces the seed's own choice. None strikes once `calm`.
    """

    def __init__(self, seed: int, only: frozenset[Injected] | None, calm: Callable[[], bool]):
        self.struck: list[Injected] = []
        self._seed = seed
        self._only = only
        self._calm = calm
        self._rates = _rates_of(seed)
        self._occasions: Counter[Fault] = Counter()

    def strikes(self, fault: Fault) -> bool:
        """Tell whether the fault happens now."""
        occasion = self._occasions[fault]
        self._occasions[fault] += 1
        if self._calm() or not self._chosen(fault, occasion):
            return False
        self.struck.append(Injected(fault, occasion))
        return True

    def between(self, fault: Fault, least: float, most: float) -> float:
        """Return how long, in seconds, the fault lasts that struck last."""
        share = fraction(self._seed, "length", fault, self._occasions[fault])
        return least + share * (most - least)

    def _chosen(self, fault: Fault, occasion: int) -> bool:
        if self._only is not None:
            return Injected(fault, occasion) in self._only
        return fraction(self._seed, "fault", fault, occasion) < self._rates[fault]


def _rates_of(seed: int) -> Mapping[Fault, float]:
    random = stream(seed, "rates")
    share = random.choice(_SHARES)
    rates = {}
    for fault in Fault:
        rate = random.choice(_RATES) * _SCALES.get(fault, 1.0)
        rates[fault] = rate if random.random() < share else 0.0
    return rates
