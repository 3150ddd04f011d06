"""Clients: start runs, repeat themselves under one key, cancel, pause and resume."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from perdure_machine.events import CancelRun, Event, PauseRun, ResumeRun, RetryRun
from perdure_machine.memory import StartAnswer
from perdure_machine.replies import Reply

from perdure_testkit.simulation.coordinator import Coordinator, StartCall
from perdure_testkit.simulation.faults import Fault
from perdure_testkit.simulation.scene import Scene
from perdure_testkit.simulation.senders import RETRY_AFTER, Sender

LAST_RESUME = 300.0
"""Seconds after which nothing that was sent while faults struck arrives any more.

A repeated pause may arrive after the resume, and rightly pauses the run again.
"""


class Client:
    """Wants one run under one key; `run_id` once it knows which it is."""

    def __init__(
        self, scene: Scene, coordinator: Coordinator, start: StartCall, sender: Sender
    ) -> None:
        self.scene = scene
        self.coordinator = coordinator
        self.wanted = start
        self.sender = sender
        self.run_id: UUID | None = None
        self.cancels = self.retries = False

    def begin(self) -> None:
        """Start, perhaps twice, and perhaps cancel later."""
        self._start()
        faults = self.scene.faults
        if faults.strikes(Fault.REPEAT_START):
            self.scene.clock.later(faults.between(Fault.REPEAT_START, 0.0, 60.0), self._start)

    def _start(self) -> None:
        self.coordinator.start(self.wanted, self._started)

    def _started(self, answer: StartAnswer | None) -> None:
        if answer is None:
            self.scene.clock.later(RETRY_AFTER, self._start)
        elif self.run_id is None:
            self.run_id = answer.run_id
            self._perhaps_cancel(answer.run_id)
            self._perhaps_hold(answer.run_id)
            self._perhaps_retry(answer.run_id)
            self.sender.begin(answer.run_id)

    def _perhaps_cancel(self, run_id: UUID) -> None:
        faults = self.scene.faults
        if faults.strikes(Fault.CANCEL):
            self.cancels = True
            after = faults.between(Fault.CANCEL, 0.0, 60.0)
            self.scene.clock.later(after, partial(self._order, run_id, CancelRun("enough")))

    def _perhaps_hold(self, run_id: UUID) -> None:
        faults = self.scene.faults
        if faults.strikes(Fault.HOLD):
            after = faults.between(Fault.HOLD, 0.0, 40.0)
            self.scene.clock.later(after, partial(self._order, run_id, PauseRun("wait")))
            resume = partial(self._order, run_id, ResumeRun("go on"))
            self.scene.clock.later(after + faults.between(Fault.CANCEL, 1.0, 40.0), resume)
            self.scene.clock.later(LAST_RESUME, resume)

    def _perhaps_retry(self, run_id: UUID) -> None:
        faults = self.scene.faults
        if faults.strikes(Fault.RETRY_RUN):
            self.retries = True
            after = faults.between(Fault.RETRY_RUN, 0.0, 200.0)
            self.scene.clock.later(after, partial(self._order, run_id, RetryRun("once more")))

    def _order(self, run_id: UUID, event: Event) -> None:
        def answered(reply: Reply | None) -> None:
            if reply is None:
                self.scene.clock.later(RETRY_AFTER, partial(self._order, run_id, event))

        self.coordinator.send("client", run_id, event, answered)
