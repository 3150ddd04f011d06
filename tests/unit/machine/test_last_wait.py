"""A wait that plainly ends its run is decided at once, as `decide` decides, and nothing else is."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from perdure_machine.decide.last_wait import last_wait
from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import parse
from perdure_machine.events import CancelRun, FireTimer, PauseRun
from perdure_machine.memory import DEFAULT_LANES
from perdure_machine.memory import engine as memory
from perdure_machine.memory.engine import MemoryEngine
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_machine.view import NodeError, Parent, RunState, StepState, TimerState
from perdure_testkit.handed import ComparedDecide

ORG = "acme"
ALONE: dict[str, Any] = {"only": {"wait": "1s"}}
PLAIN: dict[str, dict[str, Any]] = {
    "nothing": {"nodes": ALONE},
    "facts of the run": {"nodes": ALONE, "output": {"of": "${run.id}"}},
    "what the wait gives": {"nodes": ALONE, "output": "${nodes.only.output}"},
    "the last of two": {
        "nodes": {**ALONE, "first": {"wait": "500ms"}},
        "output": "${nodes.only.output}",
    },
}
OTHER: dict[str, dict[str, Any]] = {
    "a shaped output": {"nodes": {"only": {"wait": "1s", "result": {"is": 1}}}},
    "a node's deadline": {"nodes": {"only": {"wait": "1s", "deadline": "1h"}}},
    "a node behind it": {"nodes": {**ALONE, "next": {"wait": "1s", "needs": ["only"]}}},
    "a task": {"nodes": {"only": {"task": {"handler": "work"}}}},
    "what runs at the end": {
        "nodes": {**ALONE, "tell": {"task": {"handler": "work"}}},
        "at_end": [{"on": "completed", "then": ["tell"]}],
    },
}


def document(members: dict[str, Any]) -> bytes:
    return json.dumps({"name": "one", **members}).encode()


def parsed(members: dict[str, Any]) -> Definition:
    return parse(document(members), known_lanes=frozenset(DEFAULT_LANES))


class Compared:
    """An engine that decides every timer both ways."""

    def __init__(self, members: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
        self.decide = ComparedDecide()
        patch.setattr(memory, "decide", self.decide)
        self.engine = MemoryEngine()
        self.engine.publish(ORG, document(members))
        self.run_id = self.engine.start(ORG, "one", b"{}").run_id

    def fire(self, seconds: float = 1.0) -> None:
        self.engine.advance(seconds)
        for timer in self.engine.due_timers():
            self.engine.submit(ORG, self.run_id, FireTimer(timer.timer_id))


@pytest.mark.parametrize("case", PLAIN)
def test_a_last_wait_ends_its_run_as_decide_would(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Compared(PLAIN[case], monkeypatch)
    run.fire(0.5)
    run.fire(0.5)
    assert run.decide.waited == 1
    assert run.engine.run(run.run_id).status is RunStatus.COMPLETED


@pytest.mark.parametrize("event", [PauseRun("", ""), CancelRun("", "")], ids=["pause", "cancel"])
def test_a_run_that_is_held_up_or_closed_is_left_to_decide(
    event: PauseRun | CancelRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Compared(PLAIN["nothing"], monkeypatch)
    run.engine.submit(ORG, run.run_id, event)
    run.fire()
    assert run.decide.waited == 0


RUN = RunState(
    UUID(int=1), ORG, 1, "one", 1, RunStatus.RUNNING, 2, 0, 0, 2, 0, 3, None, None, None, None,
    {}, None,
)  # fmt: skip
STEP = StepState(1, "only", "wait", StepStatus.WAITING)
TIMER = TimerState(7, TimerKind.WAIT, 1, 0, -0.5)
ONE = parsed({"nodes": ALONE})


def test_the_values_of_the_tests_below_are_plain() -> None:
    last = last_wait(ONE, RUN, STEP, TIMER)
    assert last is not None
    assert (last.reply, last.timer_id) == (Applied(), 7)


@pytest.mark.parametrize("case", OTHER)
def test_what_ends_otherwise_is_left_to_decide(case: str) -> None:
    assert last_wait(parsed(OTHER[case]), RUN, STEP, TIMER) is None


def test_an_output_of_the_runs_input_is_left_to_decide() -> None:
    reads = parsed({"nodes": ALONE, "output": "${input}"})
    assert last_wait(reads, RUN, STEP, TIMER) is None


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
    assert last_wait(ONE, replace(RUN, **changed), STEP, TIMER) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"status": StepStatus.BACKING_OFF}, {"status": StepStatus.PARKED}, {"stopping": True},
        {"undecided": True}, {"compensates": 0}, {"scope": "each[0]"}, {"generation": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_step_that_waits_otherwise_is_left_to_decide(changed: dict[str, Any]) -> None:
    assert last_wait(ONE, RUN, replace(STEP, **changed), TIMER) is None


@pytest.mark.parametrize(
    "changed", [{"remaining": 0.1}, {"kind": TimerKind.DEADLINE}, {"step": 2}], ids=str
)
def test_r7_a_timer_that_is_early_or_another_is_left_to_decide(changed: dict[str, Any]) -> None:
    assert last_wait(ONE, RUN, STEP, replace(TIMER, **changed)) is None
