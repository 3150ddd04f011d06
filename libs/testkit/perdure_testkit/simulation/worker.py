"""Workers: take steps, renew, report; and die, pause, drain, repeat themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from perdure_machine.events import Acquire, Release, Report
from perdure_machine.replies import Applied, Granted, Reply
from perdure_machine.states import EffectOutcome

from perdure_testkit.simulation.behaviour import Conduct, conduct_of
from perdure_testkit.simulation.clock import Act
from perdure_testkit.simulation.coordinator import Answer, Coordinator, ignore
from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.queue import Entry, Queue
from perdure_testkit.simulation.reporting import offer, report_of
from perdure_testkit.simulation.scene import ORG, Scene, run_name, step_name

ROUND = 0.5
RENEW_EVERY = 3.0
"""Seconds between two looks at the queue, and between two renewals of a lease."""

SLOTS = 2
MAX_CALLS = 20
"""Times that one request is sent before its sender gives up."""


@dataclass(slots=True)
class _Try:
    """A try under way; `told` is what its call outside came to."""

    granted: Granted
    conduct: Conduct
    told: EffectOutcome | None = None
    over: bool = False


class Worker:
    """One worker; `_life` tells what it planned before it died from what it does now."""

    def __init__(
        self, scene: Scene, name: str, coordinator: Coordinator, queue: Queue, provider: Provider
    ) -> None:
        self.scene = scene
        self.name = name
        self.coordinator = coordinator
        self.queue = queue
        self.provider = provider
        self._random = scene.stream(name)
        self._life = 0
        self._busy = 0
        self._dead_until = 0.0
        self._frozen_until = 0.0

    @property
    def awake(self) -> bool:
        """Whether it lives and is not paused."""
        return self.scene.clock.now >= max(self._dead_until, self._frozen_until)

    def round(self) -> None:
        """Take as much from the queue as there is room for."""
        while self.awake and self._busy < SLOTS:
            entry = self.queue.read()
            if entry is None:
                return
            self._busy += 1
            event = Acquire(entry.step, self.scene.new_lease(), self.name)
            self._acquire(entry, event, 1)

    def _acquire(self, entry: Entry, event: Acquire, times: int) -> None:
        def answered(reply: Reply | None) -> None:
            self._acquired(entry, event, times, reply)

        self.coordinator.send(self.name, entry.run_id, event, self._hear(answered))
        self._if_able("after it asked for a step", _nothing)

    def _acquired(self, entry: Entry, event: Acquire, times: int, reply: Reply | None) -> None:
        if reply is None and times < MAX_CALLS:
            again = partial(self._acquire, entry, event, times + 1)
            self._soon(self._random.uniform(0.1, 2.0), again)
            return
        if reply is not None:
            self.queue.settle(entry)
        if isinstance(reply, Granted):
            self._begin(reply)
        else:
            self._busy -= 1

    def _begin(self, granted: Granted) -> None:
        self._if_able("before it began", partial(self._try, granted))

    def _try(self, granted: Granted) -> None:
        conduct = conduct_of(self.scene.seed, granted.step.scope, granted.step.node)
        one = _Try(granted, conduct)
        if self.scene.faults.strikes(Fault.RELEASE):
            self._release(one, 1)
            return
        if granted.effect is not None:
            call = partial(self._if_able, "before its call", partial(self._call_provider, one))
            self._soon(conduct.seconds / 2, call)
        finish = partial(self._if_able, "before its report", partial(self._finish, one))
        self._soon(conduct.seconds, finish)
        self._renew_later(one)

    def _call_provider(self, one: _Try) -> None:
        effect = one.granted.effect
        assert effect is not None
        if one.over:
            return
        fails = one.conduct.fails(one.granted.step.failures)
        one.told = self.provider.call(effect, refuses=fails)
        self.scene.say(self.name, f"calls {effect.kind} {step_name(one.granted.step)}: {one.told}")
        self._if_able("after its call", _nothing)

    def _renew(self, one: _Try) -> None:
        if one.over:
            return
        step, run_id = one.granted.step, one.granted.run.run_id
        assert step.lease_id is not None
        if not self.scene.faults.strikes(Fault.LOSE_RENEWAL):
            left = self.scene.store.renew(ORG, run_id, step.step, step.fence, step.lease_id)
            if left is None and not self.scene.faults.strikes(Fault.IGNORE_LOSS):
                self.scene.say(self.name, f"{run_name(run_id)} has lost {step_name(step)}")
                self._end(one)
                return
        self._renew_later(one)

    def _renew_later(self, one: _Try) -> None:
        renew = partial(self._renew, one)
        self._soon(RENEW_EVERY, partial(self._if_able, "before it renewed", renew))

    def _finish(self, one: _Try) -> None:
        if one.over:
            return
        if one.granted.effect is not None and one.told is None:
            self._call_provider(one)
        one.over = True
        report = report_of(
            one.granted,
            one.conduct,
            one.told,
            offer(self.scene, self.name, self._random),
            self._random.random(),
        )
        self._send_report(one, report, 1)
        if self.scene.faults.strikes(Fault.REPEAT_REPORT):
            late = self.scene.faults.between(Fault.REPEAT_REPORT, 1.0, 90.0)
            send = partial(self.coordinator.send, f"{self.name} late", one.granted.run.run_id)
            self.scene.clock.later(late, partial(send, report, ignore))

    def _send_report(self, one: _Try, report: Report, times: int) -> None:
        def answered(reply: Reply | None) -> None:
            if reply is None and times < MAX_CALLS:
                again = partial(self._send_report, one, report, times + 1)
                self._soon(self._random.uniform(0.1, 2.0), again)
            elif isinstance(reply, Applied) and reply.next is not None:
                self._begin(reply.next)
            else:
                self._busy -= 1

        self.coordinator.send(self.name, one.granted.run.run_id, report, self._hear(answered))
        self._if_able("after it reported", _nothing)

    def _release(self, one: _Try, times: int) -> None:
        step = one.granted.step
        assert step.lease_id is not None
        event = Release(step.step, step.fence, step.lease_id)

        def answered(reply: Reply | None) -> None:
            if reply is None and times < MAX_CALLS:
                self._soon(1.0, partial(self._release, one, times + 1))
            else:
                self._busy -= 1

        self.coordinator.send(self.name, one.granted.run.run_id, event, self._hear(answered))

    def _end(self, one: _Try) -> None:
        one.over = True
        self._busy -= 1

    def _if_able(self, where: str, act: Act) -> None:
        """Do something, unless it dies here; after a pause, if it pauses here."""
        faults, now = self.scene.faults, self.scene.clock.now
        if faults.strikes(Fault.DIE):
            self.scene.say(self.name, f"dies {where}")
            self._life += 1
            self._busy = 0
            self._dead_until = now + faults.between(Fault.DIE, 1.0, 30.0)
        elif faults.strikes(Fault.PAUSE):
            self.scene.say(self.name, f"pauses {where}")
            self._frozen_until = now + faults.between(Fault.PAUSE, 5.0, 40.0)
            self._soon(0.0, act)
        else:
            act()

    def _soon(self, seconds: float, act: Act) -> None:
        """Plan something; a death makes it void, a pause delays it."""
        life = self._life

        def wake() -> None:
            left = self._frozen_until - self.scene.clock.now
            if life != self._life:
                return
            if left > 0:
                self.scene.clock.later(left, wake)
            else:
                act()

        self.scene.clock.later(seconds, wake)

    def _hear(self, answered: Answer) -> Answer:
        """Hear an answer as long as it lives, once it is awake."""
        life = self._life

        def hear(reply: Reply | None) -> None:
            if life == self._life:
                self._soon(0.0, partial(answered, reply))

        return hear


def _nothing() -> None:
    """Do nothing."""
