"""Timer service and sweeper: they find what is due and send it late, twice and in any order."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from perdure_machine.events import (
    ChildForgone,
    ChildRefused,
    ChildStarted,
    DeliverSignals,
    Emitted,
    Event,
    ExpireLease,
    ExpireRun,
    FireTimer,
    TellOfChild,
)
from perdure_machine.replies import ChildUnwanted, ChildWanted, Emission, Reply

from perdure_testkit.simulation.coordinator import CALL_TIMEOUT, Coordinator, ignore
from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.scene import Scene

ChildOutcome = ChildStarted | ChildRefused | ChildForgone

TIMER_ROUND = 0.5
SWEEP_ROUND = 2.0
"""Seconds between two rounds."""


class TimerService:
    """Sends due timers; one that is under way is not sent anew before its call timed out."""

    def __init__(self, scene: Scene, coordinator: Coordinator) -> None:
        self.scene = scene
        self.coordinator = coordinator
        self._random = scene.stream("timer service")
        self._away_until = 0.0
        self._sent: dict[int, float] = {}

    def round(self) -> None:
        """Send what is due."""
        now, faults = self.scene.clock.now, self.scene.faults
        due = self.scene.store.due_timers()
        if now < self._away_until or (not due and not self.scene.store.timers()):
            return
        if faults.strikes(Fault.LATE_TIMERS):
            self._away_until = now + faults.between(Fault.LATE_TIMERS, 2.0, 45.0)
            return
        self._random.shuffle(due)
        for timer in due:
            if self._sent.get(timer.timer_id, -CALL_TIMEOUT) + CALL_TIMEOUT <= now:
                self._sent[timer.timer_id] = now
                self._send(timer.run_id, timer.timer_id)
        if faults.strikes(Fault.EARLY_TIMER):
            early = self._random.choice(self.scene.store.timers())
            self._send(early.run_id, early.timer_id)

    def _send(self, run_id: UUID, timer_id: int) -> None:
        times = 2 if self.scene.faults.strikes(Fault.REPEAT_TIMER) else 1
        for _ in range(times):
            answered = partial(self._answered, run_id, timer_id)
            self.coordinator.send("timer", run_id, FireTimer(timer_id), answered)

    def _answered(self, run_id: UUID, timer_id: int, reply: Reply | None) -> None:
        """Do what the delivery asks for; what gets no answer is found due again."""
        if isinstance(reply, ChildWanted | ChildUnwanted):
            self.coordinator.start_child(reply, partial(self._tell, run_id, timer_id))
        elif isinstance(reply, Emission):
            self.coordinator.emit(reply, partial(self._emitted, run_id, timer_id))

    def _tell(self, run_id: UUID, timer_id: int, outcome: ChildOutcome | None) -> None:
        if outcome is not None:
            self.coordinator.send("timer", run_id, TellOfChild(timer_id, outcome), ignore)

    def _emitted(self, run_id: UUID, timer_id: int, refusal: str | None) -> None:
        if refusal is not None:
            self.coordinator.send("timer", run_id, Emitted(timer_id, refusal), ignore)


class Sweeper:
    """Takes leases away that ran out closes runs that are too old, delivers signals.

    Its absences are bounded: for longer ones the view of R10 rightly tells of leases that ended
    long ago.
    """

    def __init__(self, scene: Scene, coordinator: Coordinator) -> None:
        self.scene = scene
        self.coordinator = coordinator
        self._random = scene.stream("sweeper")
        self._away_until = 0.0
        self._asked: dict[object, float] = {}

    def round(self) -> None:
        """Send what ran out."""
        now, faults, store = self.scene.clock.now, self.scene.faults, self.scene.store
        if now < self._away_until:
            return
        leases = store.expired_leases()
        may_leave = leases and now > self._away_until + 30.0
        if may_leave and faults.strikes(Fault.LATE_SWEEP):
            self._away_until = now + faults.between(Fault.LATE_SWEEP, 2.0, 20.0)
            return
        for one in leases:
            jitter = self._random.random()
            event = ExpireLease(one.step, one.fence, one.lease_id, one.timed_out, jitter)
            if self._is_new((one.run_id, one.step, one.fence)):
                self._send(one.run_id, event)
        for run_id in store.old_runs():
            if self._is_new(run_id):
                self._send(run_id, ExpireRun())
        for stored in store.undelivered_signals():
            if self._is_new((stored.run_id, stored.name)):
                self._send(stored.run_id, DeliverSignals(stored.name))

    def _is_new(self, found: object) -> bool:
        """Tell whether nothing was asked about it for as long as a call may take."""
        now = self.scene.clock.now
        if self._asked.get(found, -CALL_TIMEOUT) + CALL_TIMEOUT > now:
            return False
        self._asked[found] = now
        return True

    def _send(self, run_id: UUID, event: Event) -> None:
        faults = self.scene.faults
        times = 2 if faults.strikes(Fault.REPEAT_SWEEP) else 1
        late = faults.strikes(Fault.SLOW_SWEEP)
        send = partial(self.coordinator.send, "sweeper", run_id, event, ignore)
        for _ in range(times):
            after = faults.between(Fault.SLOW_SWEEP, 0.1, CALL_TIMEOUT) if late else 0.0
            self.scene.clock.later(after, send)
