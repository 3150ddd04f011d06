"""The relay: publishes what the outbox holds, and again what the queue no longer has."""

from __future__ import annotations

from uuid import UUID

from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.queue import Queue
from perdure_testkit.simulation.scene import Scene, run_name

ROUND = 0.5
"""Seconds between two rounds."""


class Relay:
    """Marks what it sent with the entry's number, as the outbox rows of the database are."""

    def __init__(self, scene: Scene, queue: Queue) -> None:
        self.scene = scene
        self.queue = queue
        self._sent: dict[tuple[UUID, int], int] = {}

    def round(self) -> None:
        """Publish every row that was never sent, or whose entry is gone."""
        waiting = {(row.run_id, row.step): row for row in self.scene.store.queued_steps()}
        self._sent = {key: entry for key, entry in self._sent.items() if key in waiting}
        for key, row in waiting.items():
            if self._sent.get(key) in self.queue.entries:
                continue
            entry = self.queue.publish(row.run_id, row.step)
            self.scene.say("relay", f"{run_name(row.run_id)} publishes {row.node}({row.step})")
            if not self.scene.faults.strikes(Fault.RELAY_FORGETS):
                self._sent[key] = entry
