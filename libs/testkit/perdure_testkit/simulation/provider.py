"""An outside provider: performs calls under keys, sometimes without being able to say so."""

from __future__ import annotations

from collections import Counter

from perdure_machine.definition.outside import EffectKind
from perdure_machine.states import EffectOutcome
from perdure_machine.view import EffectState

from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.scene import Scene, Violation


class Provider:
    """Counts what it performed, by key; a key that it honours is performed once.

    `troubled` are the keys of calls that failed by a fault, not by what the work itself does.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.performed: Counter[str] = Counter()
        self.troubled: set[str] = set()

    def call(self, effect: EffectState, *, refuses: bool) -> EffectOutcome:
        """Take a call; return what the caller learns of it. Raises `Violation`."""
        faults = self.scene.faults
        if refuses:
            return EffectOutcome.NOT_PERFORMED
        if faults.strikes(Fault.PROVIDER_REFUSES):
            self.troubled.add(effect.key)
            return EffectOutcome.NOT_PERFORMED
        self._perform(effect)
        if faults.strikes(Fault.PROVIDER_BREAKS):
            self.troubled.add(effect.key)
            return EffectOutcome.UNKNOWN
        return EffectOutcome.PERFORMED

    def has_performed(self, key: str) -> bool:
        """Tell who looks it up whether a call under the key was performed."""
        return bool(self.performed[key])

    def _perform(self, effect: EffectState) -> None:
        honours = effect.kind == EffectKind.PROVIDER
        if honours and self.performed[effect.key]:
            return
        self.performed[effect.key] += 1
        if self.performed[effect.key] > 1:
            raise Violation(f"R8: {effect.key} was performed twice, and its provider knows no keys")
