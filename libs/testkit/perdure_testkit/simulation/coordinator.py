"""Coordinators: gather events of a run, decide and write them in one batch, and die in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from perdure_machine.events import ChildForgone, ChildRefused, ChildStarted, Event
from perdure_machine.mailbox import SignalState
from perdure_machine.memory import StartAnswer
from perdure_machine.replies import ChildUnwanted, ChildWanted, Emission, Reply

from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.laws import Laws
from perdure_testkit.simulation.scene import ORG, Scene, event_name, reply_name, run_name

CALL_TIMEOUT = 5.0
"""Seconds after which a caller gives up waiting for an answer."""

Answer = Callable[[Reply | None], None]


def ignore(reply: Reply | None) -> None:
    """Take an answer that nobody waits for."""


@dataclass(slots=True)
class _Call:
    """A request under way; it is answered once, with None where no answer comes."""

    sender: str
    event: Event
    answer: Answer
    open: bool = True

    def end(self, reply: Reply | None) -> None:
        if self.open:
            self.open = False
            self.answer(reply)


@dataclass(frozen=True, slots=True)
class StartCall:
    """A start as a client asks for it."""

    key: str
    workflow: str
    payload: bytes


class Coordinator:
    """All coordinators: the write is atomic, so more of them differ from one only in batches."""

    def __init__(self, scene: Scene, laws: Laws) -> None:
        self.scene = scene
        self.laws = laws
        self._random = scene.stream("network")
        self._gathered: dict[UUID, list[_Call]] = {}

    def send(self, sender: str, run_id: UUID, event: Event, answer: Answer) -> None:
        """Send a request; `answer` is called once, with None where no answer came."""
        call = _Call(sender, event, answer)
        faults, clock = self.scene.faults, self.scene.clock
        if faults.strikes(Fault.LOSE_REQUEST):
            self._say(call, run_id, "is lost")
            clock.later(CALL_TIMEOUT, partial(call.end, None))
            return
        delay = self._net()
        if faults.strikes(Fault.DELAY_REQUEST):
            delay = faults.between(Fault.DELAY_REQUEST, 0.2, 30.0)
            clock.later(CALL_TIMEOUT, partial(call.end, None))
        clock.later(delay, partial(self._arrive, run_id, call))
        if faults.strikes(Fault.REPEAT_REQUEST):
            again = _Call(f"{sender} again", event, ignore)
            late = faults.between(Fault.REPEAT_REQUEST, 0.0, 60.0)
            clock.later(late, partial(self._arrive, run_id, again))

    def start(self, call: StartCall, answer: Callable[[StartAnswer | None], None]) -> None:
        """Start a run; `answer` gets None where no answer came."""
        faults, clock = self.scene.faults, self.scene.clock
        if faults.strikes(Fault.CRASH_BEFORE_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        started = self.laws.start(call.key, call.workflow, call.payload)
        self.scene.say("coordinator", f"start {call.key}: {run_name(started.run_id)}")
        if faults.strikes(Fault.CRASH_AFTER_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        clock.later(self._net(), partial(answer, started))

    def start_child(
        self,
        asked: ChildWanted | ChildUnwanted,
        answer: Callable[[ChildStarted | ChildRefused | ChildForgone | None], None],
    ) -> None:
        """Do what a parent asks about its child; `answer` gets None where no answer came."""
        faults, clock = self.scene.faults, self.scene.clock
        if faults.strikes(Fault.CRASH_BEFORE_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        outcome = self.scene.store.answer_parent(ORG, asked)
        self.laws.check_children()
        self.scene.say("coordinator", f"{asked.start_key}: {type(outcome).__name__}")
        lost = faults.strikes(Fault.CRASH_AFTER_WRITE)
        if lost:
            clock.later(CALL_TIMEOUT, partial(answer, None))
        else:
            clock.later(self._net(), partial(answer, outcome))

    def keep(
        self,
        signal: SignalState,
        answer: Callable[[tuple[bool, UUID | None] | None], None],
        deliver: Callable[[UUID, str], None],
    ) -> None:
        """Store a signal by its key, then have it delivered; deaths come before, between, after."""
        faults, clock = self.scene.faults, self.scene.clock
        if faults.strikes(Fault.CRASH_BEFORE_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        stored = self.scene.store.keep_signal(ORG, signal)
        self.scene.say("coordinator", f"keeps signal {signal.name} by key")
        if faults.strikes(Fault.CRASH_AFTER_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        if stored[1] is not None:
            deliver(stored[1], signal.name)
        clock.later(self._net(), partial(answer, stored))

    def emit(self, emission: Emission, answer: Callable[[str | None], None]) -> None:
        """Send what a run emits; `answer` gets why it was refused, or None where no answer came."""
        faults, clock = self.scene.faults, self.scene.clock
        if faults.strikes(Fault.CRASH_BEFORE_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
            return
        refusal = self.laws.emit(emission)
        self.scene.say("coordinator", f"emits {emission.signal.name}: {refusal or 'sent'}")
        if faults.strikes(Fault.CRASH_AFTER_WRITE):
            clock.later(CALL_TIMEOUT, partial(answer, None))
        else:
            clock.later(self._net(), partial(answer, refusal))

    def _arrive(self, run_id: UUID, call: _Call) -> None:
        gathered = self._gathered.setdefault(run_id, [])
        gathered.append(call)
        if len(gathered) == 1:
            self.scene.clock.later(self._net(), partial(self._apply, run_id))

    def _apply(self, run_id: UUID) -> None:
        calls = self._gathered.pop(run_id)
        if self.scene.faults.strikes(Fault.CRASH_BEFORE_WRITE):
            self._crash(run_id, calls, "dies before it wrote")
            return
        answers = self.laws.submit(ORG, run_id, [call.event for call in calls])
        for call, answer in zip(calls, answers, strict=True):
            self._say(call, run_id, reply_name(answer))
        if self.scene.faults.strikes(Fault.CRASH_AFTER_WRITE):
            self._crash(run_id, calls, "dies after it wrote")
            return
        for call, answer in zip(calls, answers, strict=True):
            self.scene.clock.later(self._net(), partial(call.end, answer))

    def _crash(self, run_id: UUID, calls: list[_Call], how: str) -> None:
        for call in calls:
            self._say(call, run_id, how)
            self.scene.clock.later(CALL_TIMEOUT, partial(call.end, None))

    def _say(self, call: _Call, run_id: UUID, what: str) -> None:
        self.scene.say(call.sender, f"{run_name(run_id)} {event_name(call.event)}: {what}")

    def _net(self) -> float:
        return self._random.uniform(0.001, 0.02)
