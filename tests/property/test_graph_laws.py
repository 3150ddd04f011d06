"""Random graphs with every join, handler and failure end, and end as an oracle says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_machine.events import Acquire, ExpireLease, Failed, FireTimer, Report, Succeeded
from perdure_machine.memory import MemoryEngine
from perdure_machine.states import ENDED, RunStatus, StepStatus
from perdure_machine.view import NodeError, StepState

ORG = "acme"
MOST_EVENTS = 500

Node = dict[str, Any]

TASK = {"task": {"handler": "x", "input": 1}, "retry": {"max": 1}}
KINDS: tuple[Node, ...] = (
    TASK,
    TASK,
    {"wait": "1s"},
    {"transform": 1},
    {"transform": "${input.missing}"},
    {"fail": {"code": "X"}},
)


@dataclass(frozen=True)
class Graph:
    """A definition, with the edges as the language has them."""

    nodes: Mapping[str, Node]
    on_error: str

    @property
    def document(self) -> bytes:
        members = {"name": "w", "on_error": self.on_error, "nodes": self.nodes}
        return json.dumps(members).encode()

    def needs(self, node: str) -> set[str]:
        drawn = {id_ for id_, one in self.nodes.items() if node in named(one)}
        return drawn | set(self.nodes[node].get("needs", ()))

    def descendants(self, node: str) -> set[str]:
        found = {other for other in self.nodes if node in self.needs(other)}
        return found.union(*(self.descendants(other) for other in found))


def named(node: Node) -> set[str]:
    """Return the nodes that a switch or a handler of `node` names."""
    switch, handlers = node.get("switch"), node.get("on_failure", ())
    found: set[str] = set()
    if isinstance(switch, dict):
        found.update(*(case["then"] for case in switch["cases"]), switch.get("else", ()))
    for handler in handlers if isinstance(handlers, list) else ():
        found.update(handler.get("then", ()))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    ids = [f"n{i}" for i in range(draw(st.integers(1, 8)))]
    nodes: dict[str, Node] = {}
    for index, id_ in enumerate(ids):
        behind, ahead = ids[:index], ids[index + 1 :]
        node = dict(draw(st.sampled_from(KINDS)))
        if ahead and draw(st.integers(0, 4)) == 0:
            node = {"switch": draw(switches(ahead))}
        if draw(st.integers(0, 5)) == 0:
            node["when"] = "false"
        if draw(st.integers(0, 2)) == 0:
            node["on_failure"] = [draw(handlers(ahead))]
        if behind:
            some = st.lists(st.sampled_from(behind), unique=True, max_size=3)
            node["needs"] = draw(some)
        nodes[id_] = node
    graph = Graph(nodes, draw(st.sampled_from(["stop", "finish_others"])))
    for id_ in ids:
        drop_needs_of_switches(graph, id_)
        needs = len(graph.needs(id_))
        if needs:
            nodes[id_]["join"] = draw(joins(needs))
    return graph


def drop_needs_of_switches(graph: Graph, id_: str) -> None:
    """Keep what publish keeps: a switch is needed by those that its cases name."""
    node = graph.nodes[id_]
    needs: list[str] = node.get("needs", [])
    kept = [
        one for one in needs if "switch" not in graph.nodes[one] or id_ in named(graph.nodes[one])
    ]
    node["needs"] = kept


def switches(ahead: list[str]) -> st.SearchStrategy[Node]:
    targets = st.lists(st.sampled_from(ahead), unique=True, max_size=2)
    case = st.fixed_dictionaries({"when": st.sampled_from(["true", "false"]), "then": targets})
    return st.fixed_dictionaries(
        {"cases": st.lists(case, min_size=1, max_size=2)}, optional={"else": targets}
    )


def handlers(ahead: list[str]) -> st.SearchStrategy[Node]:
    kinds = [st.just({"output": 1}), st.just({"fail": {"code": "Y"}}), st.just({"then": []})]
    if ahead:
        then = st.lists(st.sampled_from(ahead), unique=True, max_size=2)
        kinds.append(st.builds(lambda ids: {"then": ids}, then))
    return st.one_of(*kinds)


def joins(needs: int) -> st.SearchStrategy[object]:
    quorum: st.SearchStrategy[object] = st.builds(lambda n: {"quorum": n}, st.integers(1, needs))
    return st.one_of(st.sampled_from(["all", "strict", "any", "settled"]), quorum)


@settings(max_examples=300, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_every_run_ends_with_each_join_as_the_oracle_has_it(graph: Graph, random: Random) -> None:
    engine = MemoryEngine()
    engine.publish(ORG, graph.document)
    run = engine.start(ORG, "w").run_id
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
        assert set(steps) == set(graph.nodes)
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
    closed = failed is not None and not survivors(graph, failed)
    if step is None:
        assert closed
        return
    if step.status is StepStatus.CANCELLED and (stopped or closed):
        return
    expected = oracle(graph, node, steps)
    if step.status is StepStatus.SKIPPED:
        assert expected == "skip" or graph.nodes[node].get("when") == "false"
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
            is_need = need in graph.nodes[node].get("needs", ())
            yield "well" if is_need else "skipped"
