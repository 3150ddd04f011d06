"""What must hold of compensations and of what is done last, once a run has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import RunState, StepState

from perdure_testkit.simulation.language.closing import AT_END, COMPENSATION
from perdure_testkit.simulation.language.edges import all_nodes
from perdure_testkit.simulation.language.place import Document
from perdure_testkit.simulation.scene import Violation, step_name


def check_closing(document: Document, run: RunState, steps: Sequence[StepState]) -> None:
    """See that what is to be compensated and done last was, once. Raises `Violation`."""
    _check_compensations(document, run, steps)
    _check_order(steps)
    _check_last(document, run, steps)


def _check_compensations(document: Document, run: RunState, steps: Sequence[StepState]) -> None:
    times = Counter(step.compensates for step in steps if step.node.endswith(COMPENSATION))
    twice = [number for number, found in times.items() if found > 1]
    if twice:
        raise Violation(f"step {twice[0]} was compensated {times[twice[0]]} times")
    if not _compensates(document, run):
        return
    nodes = all_nodes(document)
    for step in steps:
        well = step.status is StepStatus.COMPLETED and step.error is None
        top = not step.scope and step.node in nodes and "compensate" in nodes[step.node]
        if well and top and not times[step.step]:
            raise Violation(f"{step_name(step)} was not compensated")


def _compensates(document: Document, run: RunState) -> bool:
    """Tell whether what completed is compensated at the end that the run came to."""
    if run.status is RunStatus.CANCELLED:
        return bool(document.get("compensate_on_cancel"))
    return run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT)


def _check_order(steps: Sequence[StepState]) -> None:
    """See that the last step to end was the first to be compensated."""
    by_number = {step.step: step for step in steps}
    compensated = [
        by_number[step.compensates].ended_rank or 0
        for step in sorted(steps, key=lambda step: step.step)
        if step.compensates is not None and step.node.endswith(COMPENSATION)
    ]
    if compensated != sorted(compensated, reverse=True):
        raise Violation(f"compensated in another order than backwards: {compensated}")


def _check_last(document: Document, run: RunState, steps: Sequence[StepState]) -> None:
    if not steps:
        return  # a run that never began has nothing to end with
    found = Counter(step.node for step in steps if step.node.startswith(AT_END))
    for entry in document.get("at_end", ()):
        wanted = 1 if entry["on"] in (str(run.status), "any") else 0
        for id_ in entry["then"]:
            if found[id_] != wanted:
                raise Violation(f"{id_} was done {found[id_]} times at the end {run.status}")
