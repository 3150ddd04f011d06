"""What must hold once nothing goes on any more: of each run, its steps and its effects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from perdure_machine.memory import MemoryEngine
from perdure_machine.states import EffectStatus, RunStatus, StepStatus

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.clients import Client
from perdure_testkit.simulation.closing_laws import check_closing
from perdure_testkit.simulation.comparing import check_expected, disturbed
from perdure_testkit.simulation.language.closing import node_of_step
from perdure_testkit.simulation.language.edges import BLOCKS, all_nodes
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.scene import Scene, Violation, step_name


def check_endings(case: Case, scene: Scene, provider: Provider, clients: Sequence[Client]) -> None:
    """Look at every run once more. Raises `Violation`."""
    for client in clients:
        assert client.run_id is not None
        run = scene.store.run(client.run_id)
        scene.say("end", f"{run.status} {run.output!r} {run.error}")
        _check_history(scene.store, client.run_id)
        _check_effects(scene.store, client.run_id, provider)
        _check_deadlines(case, scene.store, client.run_id)
        if run.status is RunStatus.COMPLETED:
            _check_completed(scene.store, client.run_id)
        if not client.retries:
            check_closing(case.document, run, scene.store.steps(client.run_id))
        if (
            not client.cancels
            and not client.retries
            and not disturbed(case, scene.store, client.run_id, provider)
        ):
            check_expected(case, run, scene.store.steps(client.run_id))


def _check_history(store: MemoryEngine, run_id: UUID) -> None:
    numbers = [line.seq for line in store.history(run_id)]
    if numbers != list(range(1, len(numbers) + 1)):
        raise Violation(f"the history has gaps or repeats: {numbers}")


def _check_deadlines(case: Case, store: MemoryEngine, run_id: UUID) -> None:
    """See that only what has a deadline ended at one; a whole passes on what ended in it."""
    nodes = all_nodes(case.document)
    for step in store.steps(run_id):
        at_deadline = step.error is not None and step.error.code == "DEADLINE"
        node = nodes[node_of_step(step.node)]
        passes_on = any(kind in node for kind in ("run", *BLOCKS))
        if at_deadline and not passes_on and "deadline" not in json.dumps(node):
            raise Violation(f"{step_name(step)} has no deadline and passed one")


def _check_effects(store: MemoryEngine, run_id: UUID, provider: Provider) -> None:
    """See that what the provider did is settled or visible, and what is settled it did."""
    steps = {step.step: step for step in store.steps(run_id)}
    for effect in store.effects(run_id):
        step = steps[effect.step]
        if effect.status is EffectStatus.SETTLED and not provider.performed[effect.key]:
            raise Violation(f"R8: {effect.key} is settled and was never performed")
        if effect.status is EffectStatus.IN_FLIGHT:
            raise Violation(f"R8: {effect.key} is in flight for ever")
        completed = step.status is StepStatus.COMPLETED and step.error is None
        if completed and effect.status is not EffectStatus.SETTLED:
            raise Violation(f"R8: {step_name(step)} completed and its effect is {effect.status}")
    keys = {effect.key for effect in store.effects(run_id)}
    unknown = [key for key in provider.performed if key.startswith(f"{run_id}/")]
    if not keys.issuperset(unknown):
        raise Violation(f"R8: performed under other keys: {set(unknown) - keys}")


def _check_completed(store: MemoryEngine, run_id: UUID) -> None:
    uncaught = [
        step
        for step in store.steps(run_id)
        if step.status is StepStatus.FAILED
        and step.taken is None
        and not step.scope
        and step.compensates is None
    ]
    if uncaught:
        raise Violation(f"the run completed and {step_name(uncaught[0])} failed uncaught")
