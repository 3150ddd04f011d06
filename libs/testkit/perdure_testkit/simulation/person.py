"""Somebody who asks providers what became of calls of which nobody else knows, and says so."""

from __future__ import annotations

from uuid import UUID

from perdure_machine.events import DecideEffect, NotPerformed, Performed
from perdure_machine.states import EffectStatus
from perdure_machine.view import EffectState

from perdure_testkit.simulation.behaviour import conduct_of
from perdure_testkit.simulation.coordinator import Coordinator, ignore
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.scene import Scene

ROUND = 7.0
"""Seconds between two looks at what is in review."""


class Person:
    """Decides what waits for a decision, by what its provider has done."""

    def __init__(self, scene: Scene, coordinator: Coordinator, provider: Provider) -> None:
        self.scene = scene
        self.coordinator = coordinator
        self.provider = provider

    def round(self) -> None:
        """Decide what is in review now."""
        for run_id in self.scene.store.all_runs():
            for effect in self.scene.store.effects(run_id):
                if effect.status is EffectStatus.NEEDS_REVIEW:
                    self._decide(run_id, effect)

    def _decide(self, run_id: UUID, effect: EffectState) -> None:
        decision: Performed | NotPerformed = NotPerformed(although_key_expired=True)
        if self.provider.performed[effect.key]:
            (step,) = [one for one in self.scene.store.steps(run_id) if one.step == effect.step]
            decision = Performed(conduct_of(self.scene.seed, step.scope, step.node).output)
        event = DecideEffect(effect.key, decision, "person")
        self.coordinator.send("person", run_id, event, ignore)
