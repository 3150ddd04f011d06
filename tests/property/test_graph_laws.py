"""Random graphs with every join, handler and failure end, and end as an oracle says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_machine.events import Acquire, ExpireLease, Failed, FireTimer, Report, Succeeded
from perdure_machine.memory import MemoryEngine
from perdure_machine.states import ENDED, RunStatus, StepStatus
from perdure_machine.view import NodeError, StepState
from perdure_testkit.engines.workflows import INPUTS, Node, documents, edges_to

ORG = "acme"
MOST_EVENTS = 500


@dataclass(frozen=True)
class Graph:
    """A definition, with the edges as the language has them."""

    nodes: Mapping[str, Node]
    on_error: str

    def needs(self, node: str) -> set[str]:
        return edges_to(node, self.nodes)

    def descendants(self, node: str) -> set[str]:
        found = {other for other in self.nodes if node in self.needs(other)}
        return found.union(*(self.descendants(other) for other in found))

    def has_finished(self, steps: Mapping[str, StepState]) -> bool:
        completed = [step for step in steps.values() if step.status is StepStatus.COMPLETED]
        return any("finish" in self.nodes[step.node] for step in completed)


@settings(max_examples=300, deadline=None)
@given(documents(races=False), st.sampled_from(INPUTS), st.randoms(use_true_random=False))
def test_every_run_ends_with_each_join_as_the_oracle_has_it(
    document: bytes, payload: bytes, random: Random
) -> None:
    members = json.loads(document)
    graph = Graph(members["nodes"], members["on_error"])
    engine = MemoryEngine()
    engine.publish(ORG, document)
    run = engine.start(ORG, "flow", payload).run_id
    for _ in range(MOST_EVENTS):
        assert engine.no_way_forward() == []
        if not something_happens(engine, run, random):
            break
    state = engine.run(run)
    steps = {step.node: step for step in engine.steps(run)}
    assert state.status is not RunStatus.RUNNING, graph
    assert all(step.status in ENDED for step in steps.values())
    assert engine.timers() == []
    assert engine.queued_steps() == []
    check_end(graph, state.status, state.error, steps)
    for node in graph.nodes:
        check_join(graph, node, state.error, steps)


def something_happens(engine: MemoryEngine, run: UUID, random: Random) -> bool:
    """Let one thing happen of all that can, picked at random; return whether anything could."""
    queued = [Acquire(step.step, lease_id(engine), "w") for step in engine.queued_steps()]
    held = [step for step in engine.steps(run) if step.status is StepStatus.RUNNING]
    due = [FireTimer(timer.timer_id) for timer in engine.due_timers()]
    possible: list[Acquire | FireTimer | StepState] = [*queued, *held, *due]
    if not possible:
        timers = engine.timers()
        if not timers:
            return False
        engine.advance(max(0.0, timers[0].due_at - engine.now) + 0.001)
        return True
    picked = random.choice(possible)
    if isinstance(picked, StepState):
        how = random.choice(["well", "badly", "worse", "lost"])
        engine.submit(ORG, run, ending(engine, picked, how))
    else:
        engine.submit(ORG, run, picked)
    return True


def ending(engine: MemoryEngine, step: StepState, how: str) -> Report | ExpireLease:
    assert step.lease_id is not None
    if how == "lost":
        engine.advance(11.0)
        return ExpireLease(step.step, step.fence, step.lease_id, timed_out=False)
    category = "retryable" if how == "badly" else "permanent"
    outcome = (
        Succeeded(b"1") if how == "well" else Failed(NodeError(category, "BROKEN", "it broke"))
    )
    return Report(step.step, step.fence, step.lease_id, outcome)


def lease_id(engine: MemoryEngine) -> UUID:
    return UUID(int=int(engine.now * 1000) << 20)


def check_end(
    graph: Graph,
    status: RunStatus,
    error: NodeError | None,
    steps: Mapping[str, StepState],
) -> None:
    uncaught = [s for s in steps.values() if s.status is StepStatus.FAILED and s.taken is None]
    if not uncaught:
        assert status is RunStatus.COMPLETED
        assert graph.has_finished(steps) or set(steps) == set(graph.nodes)
        return
    first = min(uncaught, key=lambda step: step.ended_rank or 0)
    assert status is RunStatus.FAILED
    assert error is not None
    assert error.node == first.node


def check_join(
    graph: Graph, node: str, error: NodeError | None, steps: Mapping[str, StepState]
) -> None:
    """Compare what became of a node with what its edges allow; a stopped one may be cancelled."""
    step = steps.get(node)
    failed = error.node if error is not None and graph.on_error == "stop" else None
    stopped = failed is not None and node not in graph.descendants(failed)
    closed = graph.has_finished(steps) or (failed is not None and not survivors(graph, failed))
    if step is None:
        assert closed
        return
    if step.status is StepStatus.CANCELLED and (stopped or closed):
        return
    expected = oracle(graph, node, steps)
    if step.status is StepStatus.SKIPPED:
        assert expected == "skip" or graph.nodes[node].get("when", "true") != "true"
    elif step.status is StepStatus.CANCELLED:
        assert expected == "cancel"
    else:
        assert expected == "run"


def survivors(graph: Graph, node: str) -> bool:
    below = graph.descendants(node)
    return any(graph.nodes[one].get("join", "all") not in ("all", "strict") for one in below)


def oracle(graph: Graph, node: str, steps: Mapping[str, StepState]) -> str:
    """Say in the words of the language what the ends of the needs come to."""
    edges = list(ends(graph, node, steps))
    join = graph.nodes[node].get("join", "all")
    well, skipped, failed = (edges.count(kind) for kind in ("well", "skipped", "failed"))
    wanted = join["quorum"] if isinstance(join, dict) else 1
    if join == "any" or isinstance(join, dict):
        return "run" if well >= wanted else "skip"
    if join == "settled":
        return "run"
    if failed:
        return "cancel"
    if join == "strict" and skipped:
        return "skip"
    return "skip" if edges and not well else "run"


def ends(graph: Graph, node: str, steps: Mapping[str, StepState]) -> Iterator[str]:
    for need in graph.needs(node):
        step = steps.get(need)
        if step is None or step.status is StepStatus.CANCELLED:
            yield "failed"
        elif step.status is StepStatus.SKIPPED:
            yield "skipped"
        elif step.taken is not None:
            yield "well" if node in step.taken else "skipped"
        elif step.status is StepStatus.FAILED:
            yield "failed"
        else:
            is_need = need in graph.nodes[node]["needs"]
            yield "well" if is_need else "skipped"
