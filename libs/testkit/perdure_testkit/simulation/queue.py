"""The queue between relay and workers: it loses, repeats, holds back and reorders what it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.scene import Scene, run_name

RECLAIM_AFTER = 30.0
"""Seconds after which an entry that was read and not settled is given to another worker."""


@dataclass(slots=True)
class Entry:
    """A hint that a step waits; `read_at` is when a worker took it, `visible_at` when it may."""

    number: int
    run_id: UUID
    step: int
    visible_at: float
    read_at: float | None = None


@dataclass(slots=True)
class Queue:
    """A stream with one group of readers."""

    scene: Scene
    entries: dict[int, Entry] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def publish(self, run_id: UUID, step: int) -> int:
        """Add a hint, if nothing happens to it; return its number."""
        faults = self.scene.faults
        number = self._add(run_id, step)
        if faults.strikes(Fault.REPEAT_ENTRY):
            self._add(run_id, step)
        if faults.strikes(Fault.LOSE_ENTRY):
            self.scene.say("queue", f"loses {run_name(run_id)} step {step}")
            self.entries.pop(number, None)
        return number

    def read(self) -> Entry | None:
        """Hand out an entry that nobody has, or that nobody settled in time."""
        now = self.scene.clock.now
        if self.entries and self.scene.faults.strikes(Fault.LOSE_QUEUE):
            self.scene.say("queue", f"loses everything, {len(self.entries)} entries")
            self.entries.clear()
        for entry in self.entries.values():
            is_free = entry.read_at is None or entry.read_at + RECLAIM_AFTER <= now
            if is_free and entry.visible_at <= now:
                entry.read_at = now
                return entry
        return None

    def settle(self, entry: Entry) -> None:
        """Remove an entry whose step somebody has answered for."""
        self.entries.pop(entry.number, None)

    def _add(self, run_id: UUID, step: int) -> int:
        number, now = next(self._numbers), self.scene.clock.now
        if self.scene.faults.strikes(Fault.DELAY_ENTRY):
            now += self.scene.faults.between(Fault.DELAY_ENTRY, 1.0, 30.0)
        self.entries[number] = Entry(number, run_id, step, visible_at=now)
        return number
