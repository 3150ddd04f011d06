"""Compares how a run ended with what the oracle expects, where faults could not change that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from perdure_machine.memory import DEFAULT_LANES, MemoryEngine
from perdure_machine.states import AttemptOutcome, RunStatus, StepStatus
from perdure_machine.view import RunState, StepState

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.language.closing import node_of_step
from perdure_testkit.simulation.language.edges import all_nodes, around
from perdure_testkit.simulation.language.oracle import Expected, expected
from perdure_testkit.simulation.language.reading import End
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.scene import Violation, step_name

_POISON = min(lane.poison_limit for lane in DEFAULT_LANES.values())
"""Losses of one step that make it fail."""


def disturbed(case: Case, store: MemoryEngine, run_id: UUID, provider: Provider) -> bool:
    """Tell whether faults made tries of the run fail, it became too old, or another took its place.

    A handler may have replaced the error, so it is looked at what led to it.
    """
    attempts = store.attempts(run_id)
    steps = {step.step: step for step in store.steps(run_id)}
    lost = Counter(one.step for one in attempts if one.outcome is AttemptOutcome.LOST)
    given_back = [one.step for one in attempts if one.outcome is AttemptOutcome.RELEASED]
    return (
        store.run(run_id).status is RunStatus.TIMED_OUT
        or _may_be_replaced(case)
        or any(one.outcome is AttemptOutcome.TIMED_OUT for one in attempts)
        or any(times >= _POISON for times in lost.values())
        or any(_fails_once_lost(case, steps[step]) for step in {*lost, *given_back})
        or any(key.startswith(f"{run_id}/") for key in provider.troubled)
    )


def _may_be_replaced(case: Case) -> bool:
    return bool(case.document.get("exclusive", {}).get("policy") == "replace")


def _fails_once_lost(case: Case, step: StepState) -> bool:
    """Tell whether the step may fail once a try of it was lost: of an unknown call, if any."""
    http = all_nodes(case.document)[node_of_step(step.node)].get("http", {})
    return bool(http.get("effect", "provider") != "provider")


def check_expected(case: Case, run: RunState, steps: Sequence[StepState]) -> None:
    """Compare a run with the oracle. Raises `Violation`."""
    wanted = expected(case)
    if wanted is None:
        return
    if run.status != wanted.status:
        raise Violation(f"oracle: the run ended {run.status}, not {wanted.status}")
    if wanted.failing and (
        run.error is None or around(case.document, run.error.node) not in wanted.failing
    ):
        raise Violation(f"oracle: the run failed by {run.error}, not by {set(wanted.failing)}")
    _check_nodes(wanted, steps)
    if run.status is RunStatus.COMPLETED:
        output = _plain(run.output)
        if output != wanted.output:
            raise Violation(f"oracle: the run came to {output}, not to {wanted.output}")


def _check_nodes(wanted: Expected, steps: Sequence[StepState]) -> None:
    """Compare the steps of all tries of a whole: each does the same."""
    found = {(step.scope, step.node) for step in steps}
    lacking = wanted.nodes.keys() - found
    if lacking and not wanted.failing:
        raise Violation(f"oracle: {sorted(lacking)} should have been decided on")
    for step in steps:
        end = wanted.nodes.get((step.scope, step.node))
        if end is not None:
            _check_node(step, end)


def _check_node(step: StepState, end: End) -> None:
    found_so, wanted_so = (str(step.status), step.taken), (end.status, end.taken)
    if found_so != wanted_so:
        raise Violation(f"oracle: {step_name(step)} is {found_so}, not {wanted_so}")
    output = _plain(step.output)
    if step.status is StepStatus.COMPLETED and output != end.output:
        raise Violation(f"oracle: {step_name(step)} came to {output}, not to {end.output}")


def _plain(output: bytes | None) -> Any:
    """Return an output without what names rows, which no two runs share."""
    return _without_ref(json.loads(output)) if output is not None else None


def _without_ref(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ref(inner) for key, inner in value.items() if key != "ref"}
    return value
