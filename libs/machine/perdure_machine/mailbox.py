"""What a decision sees of a run's signals: those that came and wait, and the steps that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.replacing import replace

MAX_WAITING = 16 * 1024 * 1024
"""What may wait in one inbox, by `SignalState.weight`; more is refused with INBOX_FULL."""

MAX_DATA = 1024 * 1024
"""Most bytes that a signal carries."""

LEAST_WEIGHT = 16 * 1024
"""What the smallest signal counts, so that an inbox holds some thousand at most."""

Address = tuple[str | None, str]
"""The key that a signal was sent by, or None, and its id: unique in a run."""


@dataclass(frozen=True, slots=True)
class SignalState:
    """A signal that was sent to a run, or by a key. `data` is JSON.

    `seen`: a decision of the run has looked at it; only then may it wait without being delivered.
    """

    signal_id: str
    name: str
    data: bytes
    key: str | None = None
    seen: bool = True

    @property
    def address(self) -> Address:
        """What tells it from the other signals of its run."""
        return (self.key, self.signal_id)

    @property
    def weight(self) -> int:
        """What it counts in its inbox, in bytes."""
        return max(len(self.data), LEAST_WEIGHT)


@dataclass(frozen=True, slots=True)
class WaitState:
    """A step that waits for a signal of this name, sent to its run or by `key`."""

    step: int
    name: str
    key: str | None

    def takes(self, signal: SignalState) -> bool:
        """Tell whether name and key fit; whether its filter does is another question."""
        return signal.name == self.name and signal.key in (None, self.key)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The part of it that was loaded; with `whole` there is nothing else.

    By name: `inbox` holds unconsumed signals, the oldest first, `waits` open waits. `owners` are
    the runs that keys map to, `known` ids of signals that were sent to the run before, `weight` is
    what waits in the inbox. `fresh` were stored, and `taken` consumed, since it was loaded.
    `secret` is what the run makes tokens of callbacks with, None where it was not asked for,
    `secret_kept` whether it is the run's already.
    """

    inbox: Mapping[str, tuple[SignalState, ...]] = field(default_factory=dict)
    waits: Mapping[str, tuple[WaitState, ...]] = field(default_factory=dict)
    owners: Mapping[str, UUID] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    weight: int = 0
    fresh: tuple[SignalState, ...] = ()
    taken: frozenset[Address] = frozenset()
    whole: bool = False
    secret: bytes | None = None
    secret_kept: bool = False

    def knows(self, name: str) -> bool:
        """Tell whether every unconsumed signal of this name was loaded."""
        return self.whole or name in self.inbox

    def waiting(self, name: str) -> tuple[SignalState, ...]:
        """Return the unconsumed signals of this name, the oldest first."""
        return tuple(
            signal
            for signal in (*self.inbox.get(name, ()), *self.fresh)
            if signal.name == name and signal.address not in self.taken
        )

    def with_signal(self, signal: SignalState) -> Mailbox:
        """Return it with a signal that was sent to the run just now."""
        return replace(
            self,
            fresh=(*self.fresh, signal),
            known=self.known | {signal.signal_id},
            weight=self.weight + signal.weight,
        )

    def without(self, signal: SignalState) -> Mailbox:
        """Return it after the signal was consumed."""
        weight = max(0, self.weight - signal.weight)
        return replace(self, taken=self.taken | {signal.address}, weight=weight)

    def with_wait(self, wait: WaitState) -> Mailbox:
        """Return it with an open wait."""
        waits = (*self.waits.get(wait.name, ()), wait)
        return replace(self, waits={**self.waits, wait.name: waits})

    def without_wait(self, step: int) -> Mailbox:
        """Return it without the wait of a step, if that has one."""
        waits = {
            name: tuple(wait for wait in found if wait.step != step)
            for name, found in self.waits.items()
        }
        return replace(self, waits=waits)

    def joined(
        self,
        names: Iterable[str],
        signals: Iterable[SignalState],
        owners: Mapping[str, UUID],
    ) -> Mailbox:
        """Return it with all signals of `names` that were loaded in addition, and `owners`."""
        loaded: dict[str, list[SignalState]] = {name: [] for name in names}
        for signal in signals:
            loaded[signal.name].append(signal)
        inbox = {name: tuple(found) for name, found in loaded.items()}
        return replace(self, inbox={**self.inbox, **inbox}, owners={**self.owners, **owners})
