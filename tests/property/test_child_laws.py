"""Laws of children, whatever is delayed, doubled, forgotten or cancelled between two runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_machine.events import (
    Acquire,
    CancelRun,
    ChildForgone,
    ChildRefused,
    ChildStarted,
    Failed,
    FireTimer,
    PauseRun,
    Report,
    ResumeRun,
    RetryRun,
    Succeeded,
    TellOfChild,
)
from perdure_machine.memory import DueTimer, MemoryEngine
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import ChildUnwanted, ChildWanted, Done, Granted
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import NodeError
from perdure_runtime.errors import Internal

ORG = "acme"
LEASES = UUID(int=1)
TASK = {"task": {"handler": "x"}}
ROUNDS = 100
MOVES = 8

Told = ChildStarted | ChildRefused | ChildForgone


@dataclass(slots=True)
class Family:
    """A parent with one child, and coordinators that stand still between their steps."""

    wait: bool
    rule: str
    retries: int
    engine: MemoryEngine = field(default_factory=MemoryEngine)
    asked: list[tuple[DueTimer, ChildWanted | ChildUnwanted]] = field(default_factory=list)
    told: list[tuple[DueTimer, Told]] = field(default_factory=list)
    started: dict[str, set[UUID]] = field(default_factory=dict)
    leases: int = 0
    retried: int = 0

    def begin(self) -> UUID:
        """Publish both workflows and start the parent."""
        call = {"workflow": "child", "wait": self.wait, "on_parent_end": self.rule}
        retry = {"on": ["BROKEN"], "max": self.retries, "base": 0}
        nodes = {"call": {"run": call, "retry": retry}, "own": TASK}
        self._publish("child", {"work": TASK})
        self._publish("parent", nodes)
        return self.engine.start(ORG, "parent").run_id

    def move(self, parent: UUID, choice: int) -> None:
        """Do one of the things that may happen next."""
        kind, which = choice % MOVES, choice // MOVES
        match kind:
            case 0 | 1:
                self._deliver(which)
            case 2:
                self._answer(which)
            case 3:
                self._tell(which, forget=False)
            case 4:
                self._tell(which, forget=which % 3 == 0)
            case 5:
                self._work(which, fails=which % 2 == 0)
            case 6 if which % 4 == 0:
                self._cancel(parent, which)
            case 7:
                self._turn(parent, which)

    def settle(self) -> None:
        """Let everybody who stands still go on, and everything that is due happen."""
        while self.asked or self.told or self.engine.due_timers():
            self._deliver(0)
            self._answer(0)
            self._tell(0, forget=False)

    def finish(self) -> None:
        """Let all work be done, and everything happen to its end."""
        for _ in range(ROUNDS):
            self.settle()
            if self.engine.queued_steps():
                self._work(0, fails=False)
            elif self.engine.timers():
                self.engine.advance(1000)
            else:
                return
        raise AssertionError("it goes on for ever")

    def children(self) -> list[UUID]:
        """Return every run that was started for the parent."""
        return sorted(run for runs in self.started.values() for run in runs)

    def _publish(self, name: str, nodes: object) -> None:
        self.engine.publish(ORG, json.dumps({"name": name, "nodes": nodes}).encode())

    def _deliver(self, which: int) -> None:
        due = self.engine.due_timers()
        if not due:
            return
        timer = due[which % len(due)]
        reply = self.engine.submit(ORG, timer.run_id, FireTimer(timer.timer_id))
        if isinstance(reply, ChildWanted | ChildUnwanted):
            self.asked.append((timer, reply))

    def _answer(self, which: int) -> None:
        if self.asked:
            timer, asked = self.asked.pop(which % len(self.asked))
            outcome = self.engine.answer_parent(ORG, asked)
            if isinstance(outcome, ChildStarted):
                self.started.setdefault(asked.start_key, set()).add(outcome.run_id)
            self.told.append((timer, outcome))

    def _tell(self, which: int, *, forget: bool) -> None:
        if self.told:
            timer, outcome = self.told.pop(which % len(self.told))
            if not forget:
                self.engine.submit(ORG, timer.run_id, TellOfChild(timer.timer_id, outcome))

    def _work(self, which: int, *, fails: bool) -> None:
        queued = self.engine.queued_steps()
        if not queued:
            return
        step = queued[which % len(queued)]
        self.leases += 1
        lease = uuid5(LEASES, str(self.leases))
        granted = self.engine.submit(ORG, step.run_id, Acquire(step.step, lease, "worker"))
        if not isinstance(granted, Granted):
            return
        error = NodeError(ErrorClass.PERMANENT, "BROKEN", "it broke")
        outcome = Failed(error) if fails else Succeeded(b"1")
        report = Report(step.step, granted.step.fence, lease, outcome)
        self.engine.submit(ORG, step.run_id, report)

    def _turn(self, parent: UUID, which: int) -> None:
        """Pause the parent, or let it go on, or retry it if it failed; some of that is refused."""
        event = (PauseRun(), ResumeRun(), RetryRun())[which % 3]
        (answer,) = self.engine.submit_all(ORG, parent, [event])
        assert not isinstance(answer, Internal)
        self.retried += isinstance(event, RetryRun) and answer == Done(changed=True)

    def _cancel(self, parent: UUID, which: int) -> None:
        targets = [parent, *self.children()]
        self.engine.submit(ORG, targets[which // 4 % len(targets)], CancelRun())


@settings(deadline=None, max_examples=150)
@given(
    wait=st.booleans(),
    rule=st.sampled_from(["cancel", "abandon", "wait"]),
    retries=st.integers(0, 1),
    choices=st.lists(st.integers(0, MOVES * 12), max_size=40),
)
def test_whatever_happens_each_try_has_one_child_and_none_outlives_its_rule(
    wait: bool, rule: str, retries: int, choices: list[int]
) -> None:
    family = Family(wait, rule, retries)
    engine, parent = family.engine, family.begin()
    for choice in choices:
        family.move(parent, choice)
        assert engine.no_way_forward() == []
    engine.submit(ORG, parent, ResumeRun())
    family.settle()
    if rule == "cancel" and engine.run(parent).status is not RunStatus.RUNNING:
        assert all(engine.run(one).status is not RunStatus.RUNNING for one in family.children())
    family.finish()

    assert all(len(runs) == 1 for runs in family.started.values())
    assert len(family.started) <= 1 + retries + family.retried
    ended = engine.run(parent)
    assert ended.status is not RunStatus.RUNNING
    assert (ended.open_children, ended.awaited_children) == (0, 0)
    for child in family.children():
        assert engine.run(child).status is not RunStatus.RUNNING
    (call,) = [step for step in engine.steps(parent) if step.node == "call"]
    if call.status is StepStatus.COMPLETED and wait:
        (last,) = engine.children(parent)
        assert last.run_id is not None
        assert engine.run(last.run_id).status is RunStatus.COMPLETED
    assert engine.no_way_forward() == []
