"""Workers: take steps, renew, report; and die, pause, drain, repeat themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from perdure_machine.events import Acquire, BeginEffect, Release, Report, SettleEffect
from perdure_machine.replies import (
    Applied,
    EffectBegun,
    EffectRefused,
    EffectSettled,
    EffectToLookUp,
    Granted,
    Reply,
)
from perdure_machine.states import EffectOutcome
from perdure_machine.view import EffectState

from perdure_testkit.simulation.behaviour import Conduct, conduct_of
from perdure_testkit.simulation.clock import Act
from perdure_testkit.simulation.coordinator import Answer, Coordinator, ignore
from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.queue import Entry, Queue
from perdure_testkit.simulation.reporting import begin_of, offer, report_of
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
    begun: BeginEffect | None = None


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
        if granted.begins is not None:
            begin = partial(self._begin_effect, one, 1)
            self._soon(conduct.seconds / 2, partial(self._if_able, "before it began a call", begin))
        else:
            self._finish_after(one, conduct.seconds)
        self._renew_later(one)

    def _finish_after(self, one: _Try, seconds: float) -> None:
        finish = partial(self._if_able, "before its report", partial(self._finish, one))
        self._soon(seconds, finish)

    def _begin_effect(self, one: _Try, times: int) -> None:
        """Ask whether the call may be made, under the same token until there is an answer."""
        if one.over:
            return
        one.begun = one.begun or begin_of(one.granted, self.scene.new_lease())
        asked, sent_at = one.begun, self.scene.clock.now

        def answered(reply: Reply | None) -> None:
            if reply is None and times < MAX_CALLS:
                again = partial(self._begin_effect, one, times + 1)
                self._soon(self._random.uniform(0.1, 2.0), again)
            else:
                self._begun(one, asked, reply, sent_at)

        self.coordinator.send(self.name, one.granted.run.run_id, asked, self._hear(answered))
        self._if_able("after it asked for a call", _nothing)

    def _begun(self, one: _Try, asked: BeginEffect, reply: Reply | None, sent_at: float) -> None:
        if one.begun is not asked:
            return
        match reply:
            case EffectBegun(effect, lease_for):
                call = partial(self._call_begun, one, effect, sent_at + lease_for)
                self._if_able("before its call", call)
            case EffectToLookUp(key):
                self._if_able("before it looked a call up", partial(self._look_up, one, key))
            case EffectSettled():
                one.told = EffectOutcome.PERFORMED
                self._finish_after(one, 0.0)
            case _:
                self._drop(one)

    def _call_begun(self, one: _Try, effect: EffectState, until: float) -> None:
        """Make the call, unless the effect's lease is over by now."""
        if self.scene.clock.now >= until:
            self._tell(one, effect.key, EffectOutcome.NOT_PERFORMED)
            self._drop(one)
            return
        fails = one.conduct.fails(one.granted.step.failures)
        one.told = self.provider.call(effect, refuses=fails)
        self.scene.say(self.name, f"calls {effect.kind} {step_name(one.granted.step)}: {one.told}")
        self._if_able("after its call", partial(self._finish_after, one, one.conduct.seconds / 2))

    def _look_up(self, one: _Try, key: str) -> None:
        found = self.provider.has_performed(key)
        told = EffectOutcome.PERFORMED if found else EffectOutcome.NOT_PERFORMED
        if self.scene.faults.strikes(Fault.PROVIDER_BREAKS):
            told = EffectOutcome.UNKNOWN
        self.scene.say(self.name, f"looks {step_name(one.granted.step)} up: {told}")
        self._tell(one, key, told, then=True)

    def _tell(
        self, one: _Try, key: str, told: EffectOutcome, *, then: bool = False, times: int = 1
    ) -> None:
        assert one.begun is not None
        event = SettleEffect(key, one.begun.token, told, one.conduct.output)

        def answered(reply: Reply | None) -> None:
            if reply is None and times < MAX_CALLS:
                again = partial(self._tell, one, key, told, then=then, times=times + 1)
                self._soon(self._random.uniform(0.1, 2.0), again)
            elif then:
                self._looked_up(one, reply)

        self.coordinator.send(self.name, one.granted.run.run_id, event, self._hear(answered))

    def _looked_up(self, one: _Try, reply: Reply | None) -> None:
        match reply:
            case EffectSettled():
                one.told = EffectOutcome.PERFORMED
                self._finish_after(one, 0.0)
            case EffectRefused():
                one.begun = None
                self._begin_effect(one, 1)
            case _:
                self._drop(one)

    def _drop(self, one: _Try) -> None:
        """Forget a try whose step goes on without it."""
        if not one.over:
            self._end(one)

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
                if one.begun is None or one.told is None:
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
