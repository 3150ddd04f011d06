"""Whether a run can go on in another version: what has begun stands, and nothing comes too late.

Reads the rows of the top scope only. What has begun inside of a sub-graph keeps its nodes, because
the paths of its scopes name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from perdure_runtime.errors import InvalidArgument

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.joining import turn_of
from perdure_machine.decide.joins import Arrival, Turn, arrival
from perdure_machine.decide.naming import unnamed
from perdure_machine.definition.compare import becomes, same_inside
from perdure_machine.definition.inputs import input_with_defaults
from perdure_machine.definition.model import BLOCKS, Definition, Node
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.migration import Code, OnPassed, OnRemoved, Plan, Refusal
from perdure_machine.places import TOP, at_top
from perdure_machine.states import ENDED, RunStatus, StepStatus
from perdure_machine.view import RunState, StepState, View


@dataclass(frozen=True, slots=True)
class Versions:
    """The version that a run leaves, and the one that it goes to, under a plan."""

    old: Definition
    new: Definition
    plan: Plan

    def node_of(self, step: StepState) -> str:
        """Return the node that a step of the top scope will stand on; a gone one keeps its id."""
        return self.becomes(step.node) or step.node

    def becomes(self, node: str) -> str | None:
        """Return what becomes of a node; one of an even older version has gone already."""
        return becomes(self.plan.nodes, self.new, node) if node in self.old.nodes else None

    def stays(self, step: StepState) -> bool:
        """Tell whether the node of a step is one of the new version's."""
        return self.node_of(step) in self.new.nodes


def of_run(run: RunState, plan: Plan) -> Iterator[Refusal]:
    """Yield why a run cannot be moved whatever its steps are."""
    if run.status is not RunStatus.RUNNING:
        yield Refusal(Code.RUN_ENDED, "", f"the run has ended: {run.status}")
    elif run.workflow_id != plan.from_id:
        version = run.workflow_version
        yield Refusal(Code.OTHER_VERSION, "", f"the run is on version {version}")
    elif run.ending is not None:
        yield Refusal(Code.RUN_COMPENSATING, "", f"the run is compensated and ends {run.ending}")
    elif run.error is not None:
        node = run.error.node
        yield Refusal(Code.RUN_FAILING, node, f"nothing caught the failure of `{node}`")


def of_input(new: Definition, payload: bytes) -> Iterator[Refusal]:
    """Yield what the new version's schema has against a run's input."""
    try:
        input_with_defaults(new, payload)
    except InvalidArgument as refusal:
        told = "; ".join(f"{one.field} {one.description}" for one in refusal.violations)
        message = f"the new version refuses the run's input: {told or refusal.message}"
        yield Refusal(Code.INPUT_INVALID, "", message)


def of_steps(versions: Versions, view: View) -> Iterator[Refusal]:
    """Yield which steps of the top scope cannot stand where they would."""
    steps = top_steps(view)
    for step in steps:
        yield from _of_step(versions, step)
    names = Counter(map(versions.node_of, steps))
    for step in steps:
        if names[versions.node_of(step)] > 1 and versions.node_of(step) != step.node:
            yield Refusal(
                Code.NAME_TAKEN,
                step.node,
                f"another step of the run has the id `{versions.node_of(step)}`",
            )
    begun = {versions.node_of(step) for step in steps if step.effect_prefix or not step.undecided}
    keys = {unnamed(step.effect_prefix): step for step in steps if step.effect_prefix is not None}
    for node in versions.new.top.nodes:
        other = keys.get(f"{view.run.run_id}/{node}")
        if node not in begun and other is not None:
            yield Refusal(
                Code.EFFECT_KEY_TAKEN,
                node,
                f"the effects of step {other.step} have the keys that `{node}` would have",
            )


def top_steps(view: View) -> list[StepState]:
    """Return the steps of the top scope, those of nodes that have gone among them."""
    return [step for _, step in sorted(view.steps.items()) if step.place == TOP]


def _of_step(versions: Versions, step: StepState) -> Iterator[Refusal]:
    node = versions.becomes(step.node)
    is_open = step.status not in ENDED
    if step.node not in versions.old.nodes:
        return
    if step.status is StepStatus.FAILED and step.taken is None and not step.undecided:
        message = "the run is just being retried; try again when that is done"
        yield Refusal(Code.RUN_REOPENING, step.node, message)
    is_block = isinstance(versions.old.nodes[step.node].kind, BLOCKS)
    if node is None:
        if is_open:
            yield from _of_removed(versions.plan, step, is_block=is_block)
    elif versions.new.nodes[node].container:
        container = versions.new.nodes[node].container
        yield Refusal(Code.NODE_MOVED, step.node, f"it has begun, and now stands in `{container}`")
    elif is_block and node != step.node:
        message = "it has begun, and the paths of its scopes hold its id"
        yield Refusal(Code.BLOCK_RENAMED, step.node, message)
    elif is_open and versions.new.nodes[node].kind.name != step.kind:
        kind = versions.new.nodes[node].kind.name
        message = f"it is {step.status} as a `{step.kind}` and would be a `{kind}`"
        yield Refusal(Code.KIND_CHANGED, step.node, message)
    elif is_open and is_block and not same_inside(versions.old, versions.new, node):
        message = "it is unfinished, and the nodes, edges or joins inside of it differ"
        yield Refusal(Code.BLOCK_CHANGED, step.node, message)


def _of_removed(plan: Plan, step: StepState, *, is_block: bool) -> Iterator[Refusal]:
    if step.status is StepStatus.RUNNING:
        message = f"{step.worker} runs it and the new version lacks it; try again when it has ended"
        yield Refusal(Code.STEP_RUNS, step.node, message)
    elif plan.on_removed is OnRemoved.REFUSE or is_block:
        message = f"it is {step.status} and the new version lacks it"
        yield Refusal(Code.NODE_REMOVED, step.node, message)


def passed(moved: Draft) -> frozenset[str]:
    """Return the nodes that have not ended though one that needs them has begun.

    `moved` is the run in the new version.
    """
    found: set[str] = set()
    for node in map(moved.definition.nodes.__getitem__, moved.definition.top.nodes):
        if _has_begun(moved, node.id) and _would_wait(moved, node):
            found |= {need for need in node.needs if _is_open(moved, need, node.id)}
    return frozenset(found)


def of_passed(moved: Draft, versions: Versions) -> Iterator[Refusal]:
    """Yield the nodes that would come too late, unless the plan lets them."""
    if versions.plan.on_passed is not OnPassed.REFUSE:
        return
    for need in sorted(passed(moved)):
        yield Refusal(
            Code.NODE_PASSED, need, "it has not ended, and a node that needs it has begun already"
        )


def skippable(moved: Draft, versions: Versions) -> list[str]:
    """Return the new nodes to skip, because only what has begun, or is skipped, needs them."""
    kept = {versions.becomes(node) for node in versions.old.nodes}
    late = [*passed(moved)]
    found: dict[str, None] = {}
    while late:
        node = moved.definition.nodes[late.pop()]
        is_new = node.id not in kept and moved.step_of(at_top(node.id)) is None
        if is_new and all(_has_begun(moved, one) or one in found for one in node.dependents):
            found[node.id] = None
            late += node.needs
    return list(found)


def _would_wait(moved: Draft, node: Node) -> bool:
    try:
        return turn_of(moved, node, TOP) is Turn.WAIT
    except ExpressionFailed:
        return False  # what failed for want of a quorum has begun and ended


def _has_begun(moved: Draft, node: str) -> bool:
    return moved.step_of(at_top(node)) is not None


def _is_open(moved: Draft, need: str, node: str) -> bool:
    step = moved.step_of(at_top(need))
    return arrival(moved.definition.nodes[need], step, node) is Arrival.OPEN
