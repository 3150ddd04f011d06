"""Who sends the signals that a definition waits for: early and late, to the run and by key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from perdure_machine.events import DeliverSignals, SendSignal
from perdure_machine.mailbox import SignalState
from perdure_machine.replies import Reply

from perdure_testkit.simulation.behaviour import conduct_of
from perdure_testkit.simulation.coordinator import Coordinator, ignore
from perdure_testkit.simulation.language.place import Nodes, signal_key, signal_name
from perdure_testkit.simulation.scene import Scene

RETRY_AFTER = 2.0
"""Seconds after which a client repeats what was not answered."""

LATEST = 60.0
"""Seconds after its start in which a run gets its signals."""


class Sender:
    """Sends each signal of a run until it is answered; an id makes repeats harmless."""

    def __init__(self, scene: Scene, coordinator: Coordinator, nodes: Nodes) -> None:
        self.scene = scene
        self.coordinator = coordinator
        self._waits: Mapping[str, bool] = {
            id_: "key" in node["signal"]
            for id_, node in nodes.items()
            if node.get("signal", {}).get("name") == signal_name(id_)
        }

    def begin(self, run_id: UUID) -> None:
        """Plan the signals of a run."""
        for id_, has_key in self._waits.items():
            data = conduct_of(self.scene.seed, "", id_).output
            random = self.scene.stream("signal", run_id, id_)
            key = signal_key(str(run_id), id_) if has_key and random.random() < 0.7 else None
            signal = SignalState(f"{id_} of {run_id}", signal_name(id_), data, key)
            after = random.choice((0.0, random.uniform(0.0, LATEST)))
            send = self._by_key if key is not None else self._to_run
            self.scene.clock.later(after, partial(send, run_id, signal))

    def _to_run(self, run_id: UUID, signal: SignalState) -> None:
        def answered(reply: Reply | None) -> None:
            if reply is None:
                self.scene.clock.later(RETRY_AFTER, partial(self._to_run, run_id, signal))

        self.coordinator.send("sender", run_id, SendSignal(signal), answered)

    def _by_key(self, run_id: UUID, signal: SignalState) -> None:
        def answered(stored: tuple[bool, UUID | None] | None) -> None:
            if stored is None:
                self.scene.clock.later(RETRY_AFTER, partial(self._by_key, run_id, signal))

        self.coordinator.keep(signal, answered, self._deliver)

    def _deliver(self, owner: UUID, name: str) -> None:
        self.coordinator.send("sender", owner, DeliverSignals(name), ignore)
