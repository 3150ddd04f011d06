"""A run's plain beginning and end are decided at once, as `decide` decides, and nothing else is."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from perdure_machine.actions import Instant
from perdure_machine.decide.first_step import start_plainly, take_up
from perdure_machine.decide.last_report import last_report
from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import parse
from perdure_machine.events import Acquire, CancelRun, Failed, PauseRun, Report, Start, Succeeded
from perdure_machine.mailbox import SignalState
from perdure_machine.memory import DEFAULT_LANES
from perdure_machine.memory import engine as memory
from perdure_machine.memory.engine import MemoryEngine
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import NodeError, Parent, RunState, StepState
from perdure_testkit.handed import ComparedDecide, ComparedStart

ORG = "acme"
TASK = {"handler": "work"}
ALONE: dict[str, Any] = {"only": {"task": TASK}}
PLAIN: dict[str, dict[str, Any]] = {
    "the run's input": {"nodes": ALONE},
    "a constant": {"nodes": {"only": {"task": {**TASK, "input": {"n": 1}}}}},
    "a part of the input": {"nodes": {"only": {"task": {**TASK, "input": "${input.amount}"}}}},
    "facts of the run": {"nodes": {"only": {"task": {**TASK, "input": {"id": "${run.id}"}}}}},
    "a timeout": {"nodes": {"only": {"task": TASK, "timeout": "2s", "priority": 7}}},
    "an output": {"nodes": ALONE, "output": "${nodes.only.output}"},
    "an output of input": {"nodes": ALONE, "output": {"was": "${input}", "of": "${run.version}"}},
    "an absent output": {"nodes": ALONE, "output": {"is": "${nodes.only.output.absent}"}},
    "an age": {"nodes": ALONE, "limits": {"age": "1h"}},
}
OTHER_BEGINNINGS: dict[str, dict[str, Any]] = {
    "two roots": {"nodes": {**ALONE, "other": {"task": TASK}}},
    "a condition": {"nodes": {"only": {"task": TASK, "when": "input.amount > 1"}}},
    "a node's deadline": {"nodes": {"only": {"task": TASK, "deadline": "1h"}}},
    "a connection": {"nodes": {"only": {"task": TASK, "connection": "crm"}}},
    "a subject": {"nodes": ALONE, "subject": "${input.amount}"},
    "a deadline": {"nodes": ALONE, "deadline": "1h"},
    "a key": {"nodes": ALONE, "exclusive": {"key": "${input.amount}"}},
    "a wait": {"nodes": {"only": {"wait": "1s"}}},
    "a failing input": {"nodes": {"only": {"task": {**TASK, "input": "${input.absent}"}}}},
}
OTHER_ENDS: dict[str, dict[str, Any]] = {
    "a shaped output": {"nodes": {"only": {"task": TASK, "result": {"is": 1}}}},
    "what runs at the end": {
        "nodes": {**ALONE, "tell": {"task": TASK}},
        "at_end": [{"on": "completed", "then": ["tell"]}],
    },
}
GIVEN = b'{"amount": 2}'


def document(members: dict[str, Any]) -> bytes:
    return json.dumps({"name": "one", **members}).encode()


def parsed(members: dict[str, Any]) -> Definition:
    return parse(document(members), known_lanes=frozenset(DEFAULT_LANES))


class Compared:
    """An engine that decides every event both ways."""

    def __init__(self, members: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
        self.decide, self.start = ComparedDecide(), ComparedStart()
        patch.setattr(memory, "decide", self.decide)
        patch.setattr(memory, "decide_start", self.start)
        self.engine = MemoryEngine()
        self.engine.publish(ORG, document(members))
        self.run_id = self.engine.start(ORG, "one", GIVEN).run_id
        self.lease = uuid4()

    def take(self) -> None:
        self.engine.submit(ORG, self.run_id, Acquire(1, self.lease, "ann"))

    def report(self, outcome: Succeeded | Failed) -> None:
        self.engine.submit(ORG, self.run_id, Report(1, 1, self.lease, outcome, jitter=0.5))

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.start.compared, self.decide.taken_up, self.decide.finished


@pytest.mark.parametrize("case", PLAIN)
def test_a_plain_run_begins_and_ends_as_decide_would(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Compared(PLAIN[case], monkeypatch)
    run.take()
    run.report(Succeeded(b'{"out": [1, "\\u00fc"]}'))
    assert run.counts == (1, 1, 1)


@pytest.mark.parametrize("case", OTHER_BEGINNINGS)
def test_what_begins_otherwise_is_left_to_decide(case: str) -> None:
    assert start_plainly(parsed(OTHER_BEGINNINGS[case]), START) is None


@pytest.mark.parametrize("case", OTHER_ENDS)
def test_what_ends_otherwise_is_left_to_decide(case: str) -> None:
    assert last_report(parsed(OTHER_ENDS[case]), RUN, LEASED, REPORT) is None


@pytest.mark.parametrize("output", [b"not json", b"[" * 101 + b"]" * 101])
def test_an_output_that_is_none_is_left_to_decide(
    output: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Compared(PLAIN["the run's input"], monkeypatch)
    run.take()
    run.report(Succeeded(output))
    assert run.counts == (1, 1, 0)


def test_a_failure_and_a_second_node_are_left_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Compared(PLAIN["the run's input"], monkeypatch)
    run.take()
    run.report(Failed(NodeError(ErrorClass.PERMANENT, "NO", "no")))
    chain = Compared({"nodes": {**ALONE, "next": {"task": TASK, "needs": ["only"]}}}, monkeypatch)
    chain.take()
    chain.report(Succeeded(b"1"))
    assert run.counts == (1, 1, 0)
    assert chain.counts == (1, 1, 0)


@pytest.mark.parametrize("event", [PauseRun("", ""), CancelRun("", "")], ids=["pause", "cancel"])
def test_a_run_that_is_held_up_or_closed_is_left_to_decide(
    event: PauseRun | CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Compared(PLAIN["the run's input"], monkeypatch)
    before.engine.submit(ORG, before.run_id, event)
    before.take()
    after = Compared(PLAIN["the run's input"], monkeypatch)
    after.take()
    after.engine.submit(ORG, after.run_id, event)
    after.report(Succeeded(b"1"))
    assert before.counts == (1, 0, 0)
    assert after.counts == (1, 1, 0)


START = Start(UUID(int=1), ORG, 1, 1, GIVEN)
RUN = RunState(
    UUID(int=1), ORG, 1, "one", 1, RunStatus.RUNNING, 2, 0, 0, 2, 0, 4, GIVEN, None, None, None,
    {}, None,
)  # fmt: skip
LEASE = uuid4()
LEASED = StepState(1, "only", "task", StepStatus.RUNNING, lane="io", owner=ORG, fence=1,
                   lease_id=LEASE, worker="ann", effect_prefix="p")  # fmt: skip
QUEUED = replace(LEASED, status=StepStatus.QUEUED, fence=0, lease_id=None, worker=None)
REPORT = Report(1, 1, LEASE, Succeeded(b"1"))
ACQUIRE = Acquire(1, LEASE, "ann")
ONE = parsed({"nodes": ALONE})


def test_the_values_of_the_tests_below_are_plain() -> None:
    assert start_plainly(ONE, START) is not None
    assert take_up(ONE, DEFAULT_LANES, RUN, QUEUED, ACQUIRE) is not None
    assert last_report(ONE, RUN, LEASED, REPORT) is not None


@pytest.mark.parametrize(
    "changed",
    [{"start": Instant(after=5.0)}, {"signal": SignalState("1", "go", b"null")}],
    ids=["later", "with a signal"],
)
def test_a_start_with_more_to_write_is_left_to_decide(changed: dict[str, Any]) -> None:
    assert start_plainly(ONE, replace(START, **changed)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"status": RunStatus.COMPLETED}, {"ending": RunStatus.FAILED}, {"paused": True},
        {"pending": True}, {"erased": True}, {"generation": 1}, {"has_mail": True},
        {"has_effects": True}, {"open_children": 1}, {"awaited_children": 1},
        {"parent": Parent(UUID(int=2), 1, told=True)}, {"exclusive_key": "k"}, {"ended_nodes": 1},
        {"error": NodeError(ErrorClass.PERMANENT, "NO", "no")},
    ],
    ids=str,
)  # fmt: skip
def test_a_run_that_has_more_to_tell_or_to_do_does_not_end_plainly(changed: dict[str, Any]) -> None:
    assert last_report(ONE, replace(RUN, **changed), LEASED, REPORT) is None


@pytest.mark.parametrize(
    "changed", [{"status": StepStatus.RUNNING}, {"fence": 1}, {"step": 2}, {"node": "x"}], ids=str
)
def test_a_step_that_is_not_the_first_queued_one_is_not_taken_up(changed: dict[str, Any]) -> None:
    assert take_up(ONE, DEFAULT_LANES, RUN, replace(QUEUED, **changed), ACQUIRE) is None


@pytest.mark.parametrize(
    "changed", [{"stopping": True}, {"undecided": True}, {"fence": 2}, {"compensates": 0}], ids=str
)
def test_r6_a_step_that_another_holds_or_that_stops_does_not_end_its_run(
    changed: dict[str, Any],
) -> None:
    assert last_report(ONE, RUN, replace(LEASED, **changed), REPORT) is None
