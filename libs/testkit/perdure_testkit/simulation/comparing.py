"""Compares how a run ended with what the oracle expects, where faults could not change that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from perdure_machine.memory import DEFAULT_LANES, MemoryEngine
from perdure_machine.states import AttemptOutcome, RunStatus, StepStatus
from perdure_machine.view import RunState, StepState

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.oracle import End, Expected, expected
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.scene import Violation

_POISON = min(lane.poison_limit for lane in DEFAULT_LANES.values())
"""Losses of one step that make it fail."""


def disturbed(case: Case, store: MemoryEngine, run_id: UUID, provider: Provider) -> bool:
    """Tell whether faults made tries of the run fail, or it became too old.

    A handler may have replaced the error, so it is looked at what led to it.
    """
    attempts = store.attempts(run_id)
    steps = {step.step: step for step in store.steps(run_id)}
    lost = Counter(one.step for one in attempts if one.outcome is AttemptOutcome.LOST)
    given_back = [one.step for one in attempts if one.outcome is AttemptOutcome.RELEASED]
    return (
        store.run(run_id).status is RunStatus.TIMED_OUT
        or any(one.outcome is AttemptOutcome.TIMED_OUT for one in attempts)
        or any(times >= _POISON for times in lost.values())
        or any(_fails_once_lost(case, steps[step]) for step in {*lost, *given_back})
        or any(key.startswith(f"{run_id}/") for key in provider.troubled)
    )


def _fails_once_lost(case: Case, step: StepState) -> bool:
    """Tell whether the step may fail once a try of it was lost: of an unknown call, if any."""
    http = case.document["nodes"][step.node].get("http", {})
    return bool(http.get("effect", "provider") != "provider")


def check_expected(case: Case, run: RunState, steps: Sequence[StepState]) -> None:
    """Compare a run with the oracle. Raises `Violation`."""
    wanted = expected(case)
    if wanted is None:
        return
    if run.status != wanted.status:
        raise Violation(f"oracle: the run ended {run.status}, not {wanted.status}")
    if wanted.failing and (run.error is None or run.error.node not in wanted.failing):
        raise Violation(f"oracle: the run failed by {run.error}, not by {set(wanted.failing)}")
    if wanted.nodes is not None:
        _check_nodes(wanted.nodes, steps)
    if run.status is RunStatus.COMPLETED:
        _check_output(run, wanted)


def _check_nodes(wanted: dict[str, End], steps: Sequence[StepState]) -> None:
    found = {step.node: step for step in steps}
    if found.keys() != wanted.keys():
        raise Violation(
            f"oracle: {set(wanted) ^ set(found)} have a step and should not, or lack one"
        )
    for node, end in wanted.items():
        step = found[node]
        if step.status != end.status or step.taken != end.taken:
            found_so, wanted_so = (step.status, step.taken), (end.status, end.taken)
            raise Violation(f"oracle: {node} is {found_so}, not {wanted_so}")
        output = json.loads(step.output) if step.output is not None else None
        if step.status is StepStatus.COMPLETED and output != end.output:
            raise Violation(f"oracle: {node} came to {output}, not to {end.output}")


def _check_output(run: RunState, wanted: Expected) -> None:
    output = json.loads(run.output) if run.output is not None else None
    if output != wanted.output:
        raise Violation(f"oracle: the run came to {output}, not to {wanted.output}")
