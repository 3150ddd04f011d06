"""What is decided at once is what `decide` decides, and only the plain case is decided at once."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure_machine.decide.hand_over import hand_over
from perdure_machine.definition.heirs import heirs
from perdure_machine.definition.parse import parse
from perdure_machine.events import (
    Acquire,
    CancelRun,
    Failed,
    Offer,
    PauseRun,
    Queue,
    Report,
    ResumeRun,
    Succeeded,
)
from perdure_machine.memory import engine as memory
from perdure_machine.memory.engine import MemoryEngine
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Granted
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import NodeError, RunState, StepState
from perdure_testkit.handed import ComparedDecide

ORG = "acme"
QUEUES = frozenset({Queue("io", ORG)})
ERROR = NodeError(ErrorClass.PERMANENT, "NO", "no")

TASK = {"handler": "work"}
PLAIN: dict[str, dict[str, Any]] = {
    "the run's input": {"task": TASK},
    "a constant": {"task": {**TASK, "input": {"n": 1}}},
    "the last output": {"task": {**TASK, "input": {"got": "${nodes.LAST.output}"}}},
    "a part of the input": {"task": {**TASK, "input": {"got": "${input.amount}"}}},
    "facts of the run": {"task": {**TASK, "input": {"id": "${run.id}", "v": "${run.version}"}}},
    "a timeout": {"task": TASK, "timeout": "2s"},
    "a priority": {"task": TASK, "priority": 7},
    "a retry": {"task": TASK, "retry": {"max": 1}},
}
OTHER: dict[str, dict[str, Any]] = {
    "a condition": {"task": TASK, "when": "input.amount > 1"},
    "a shaped output": {"task": TASK, "result": {"is": 1}},
    "a deadline": {"task": TASK, "deadline": "1h"},
    "a wait": {"wait": "1s"},
    "a value": {"transform": {"x": 1}},
    "a connection": {"task": TASK, "connection": "crm"},
    "another lane": {"task": TASK, "lane": "slow"},
    "a failing input": {"task": {**TASK, "input": {"got": "${nodes.LAST.output.absent}"}}},
    "an earlier output": {"task": {**TASK, "input": {"got": "${nodes.first.output}"}}},
}
KINDS = {**PLAIN, **OTHER}


def chain(*kinds: str, **members: object) -> bytes:
    """Return a definition of tasks in a row: the first plain, then one of each kind."""
    nodes: dict[str, Any] = {"first": {"task": TASK}}
    last = "first"
    for number, kind in enumerate(kinds):
        node = json.loads(json.dumps(KINDS[kind]).replace("LAST", last))
        name = f"n{number}"
        nodes[name] = {**node, "needs": [last]}
        last = name
    return json.dumps({"name": "chain", "nodes": nodes, **members}).encode()


class Run:
    """A run of a chain whose worker takes every step that it is offered."""

    def __init__(self, document: bytes, payload: bytes = b'{"amount": 2}') -> None:
        self.engine = MemoryEngine()
        self.engine.publish(ORG, document)
        self.run_id = self.engine.start(ORG, "chain", payload).run_id
        self.step, self.lease = 1, uuid4()
        self.engine.submit(ORG, self.run_id, Acquire(1, self.lease, "ann"))

    def report(self, outcome: Succeeded | Failed, offer: Offer | None) -> bool:
        """Report on the step that is held; return whether another one is held now."""
        event = Report(self.step, 1, self.lease, outcome, offer=offer, jitter=0.5)
        reply = self.engine.submit(ORG, self.run_id, event)
        if not isinstance(reply, Applied) or reply.next is None:
            return False
        assert reply.next.step.lease_id is not None
        self.step, self.lease = reply.next.step.step, reply.next.step.lease_id
        return True

    def offer(self) -> Offer:
        return Offer(uuid4(), "ann", QUEUES)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> ComparedDecide:
    comparing = ComparedDecide()
    monkeypatch.setattr(memory, "decide", comparing)
    return comparing


@pytest.mark.parametrize("kind", PLAIN)
def test_a_plain_heir_is_handed_over_as_decide_would(kind: str, compared: ComparedDecide) -> None:
    run = Run(chain(kind, kind))
    while run.report(Succeeded(b'{"out": 1}'), run.offer()):
        pass
    assert compared.compared == 2


@pytest.mark.parametrize("kind", OTHER)
def test_what_takes_more_than_the_two_steps_is_left_to_decide(
    kind: str, compared: ComparedDecide
) -> None:
    run = Run(chain("a constant", kind, "a constant"))
    while run.report(Succeeded(b'{"out": 1}'), run.offer()):
        pass
    assert compared.compared < 3


@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5),
    outcomes=st.lists(
        st.sampled_from([b"null", b'{"out": [1, 2]}', b"not json", b"[" * 101 + b"]" * 101, None]),
        min_size=5,
        max_size=5,
    ),
    offers=st.lists(st.booleans(), min_size=5, max_size=5),
    pauses=st.lists(st.sampled_from(["", "pause", "pause and resume", "cancel"]), max_size=5),
)
def test_whatever_happens_in_a_chain_a_hand_over_is_what_decide_decides(
    kinds: list[str], outcomes: list[bytes | None], offers: list[bool], pauses: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "decide", ComparedDecide())
        run = Run(chain(*kinds))
        for place in range(len(kinds)):
            happens = pauses[place] if place < len(pauses) else ""
            if "pause" in happens:
                run.engine.submit(ORG, run.run_id, PauseRun("", ""))
            if "resume" in happens:
                run.engine.submit(ORG, run.run_id, ResumeRun("", ""))
            if happens == "cancel":
                run.engine.submit(ORG, run.run_id, CancelRun("", ""))
            output = outcomes[place]
            outcome = Failed(ERROR) if output is None else Succeeded(output)
            if not run.report(outcome, run.offer() if offers[place] else None):
                break


RUN = RunState(
    UUID(int=1), ORG, 1, "chain", 1, RunStatus.RUNNING, 3, 0, 0, 2, 0, 4, b"{}", None, None, None,
    {}, None,
)  # fmt: skip
LEASE = uuid4()
STEP = StepState(1, "first", "task", StepStatus.RUNNING, lane="io", owner=ORG, fence=1,
                 lease_id=LEASE, worker="ann", effect_prefix="p")  # fmt: skip
REPORT = Report(1, 1, LEASE, Succeeded(b"1"), offer=Offer(uuid4(), "ann", QUEUES))


def handed(run: RunState = RUN, step: StepState = STEP, event: Report = REPORT) -> Granted | None:
    definition = parse(chain("the run's input"), known_lanes=frozenset({"io"}))
    found = hand_over(definition, MemoryEngine().lanes, run, step, event)
    return found.granted if found is not None else None


def test_a_run_that_goes_on_is_handed_over() -> None:
    assert handed() is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"status": RunStatus.COMPLETED},
        {"ending": RunStatus.FAILED},
        {"error": ERROR},
        {"paused": True},
        {"pending": True},
        {"erased": True},
        {"generation": 1},
        {"input": None},
        {"next_step": 10_001},
    ],
    ids=str,
)
def test_a_run_that_something_holds_up_is_not(changed: dict[str, Any]) -> None:
    assert handed(run=replace(RUN, **changed)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"status": StepStatus.COMPLETED},
        {"stopping": True},
        {"undecided": True},
        {"compensates": 0},
        {"fence": 2},
        {"lease_id": UUID(int=2)},
        {"scope": "each/0"},
        {"generation": 1},
    ],
    ids=str,
)
def test_a_step_that_is_not_its_reporters_is_not(changed: dict[str, Any]) -> None:
    assert handed(step=replace(STEP, **changed)) is None


def test_only_a_success_with_an_offer_of_the_heirs_queue_is() -> None:
    other = Offer(uuid4(), "ann", frozenset({Queue("slow", ORG), Queue("io", "rival")}))
    assert handed(event=replace(REPORT, outcome=Failed(ERROR))) is None
    assert handed(event=replace(REPORT, offer=None)) is None
    assert handed(event=replace(REPORT, offer=other)) is None


def test_a_node_with_two_ways_out_or_in_has_no_heir() -> None:
    nodes = {
        "a": {"task": TASK},
        "b": {"task": TASK, "needs": ["a"]},
        "c": {"task": TASK, "needs": ["a"]},
        "d": {"task": TASK, "needs": ["b", "c"]},
        "e": {"task": TASK, "needs": ["d"]},
    }
    document = json.dumps({"name": "graph", "nodes": nodes}).encode()
    definition = parse(document, known_lanes=frozenset({"io"}))
    assert definition.heirs == {"d": "e"} == heirs(definition.nodes)
