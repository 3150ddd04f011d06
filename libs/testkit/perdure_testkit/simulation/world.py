"""Plays one case from its start to the end of all runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from uuid import UUID

from perdure_machine.states import ENDED, RunStatus

from perdure_testkit.simulation import person, relay, services, worker
from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.clients import Client
from perdure_testkit.simulation.clock import Clock
from perdure_testkit.simulation.coordinator import Coordinator, StartCall
from perdure_testkit.simulation.endings import check_endings
from perdure_testkit.simulation.faults import CALM_AFTER, Faults, Injected
from perdure_testkit.simulation.language.definitions import random_child
from perdure_testkit.simulation.laws import Laws
from perdure_testkit.simulation.provider import Provider
from perdure_testkit.simulation.queue import Queue
from perdure_testkit.simulation.scene import ORG, Scene, Violation
from perdure_testkit.simulation.senders import Sender
from perdure_testkit.simulation.store import Bug, Store
from perdure_testkit.simulation.trace import Trace

PATIENCE = 900.0
"""Seconds within which every run must then have ended."""

WORKERS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulation ended: `violation` is the law that was broken, if one was."""

    violation: str | None
    struck: Sequence[Injected]
    digest: str
    events: int
    last: Sequence[str]
    ends: Sequence[RunStatus]


def simulate(case: Case, bug: Bug | None = None) -> Outcome:
    """Play a case on an engine that has `bug` planted into it."""
    world = _World(case, bug or Bug())
    violation = None
    try:
        world.play()
    except Violation as broken:
        violation = str(broken)
    scene = world.scene
    return Outcome(
        violation,
        tuple(scene.faults.struck),
        scene.trace.digest,
        scene.trace.lines,
        scene.trace.last,
        tuple(scene.store.run(run_id).status for run_id in world.runs()),
    )


class _World:
    def __init__(self, case: Case, bug: Bug) -> None:
        store = Store(bug)
        clock = Clock(store)
        faults = Faults(case.seed, case.faults, lambda: clock.now > CALM_AFTER)
        self.case = case
        self.scene = Scene(case.seed, clock, store, faults, Trace(), count(1))
        self.laws = Laws(self.scene)
        self.coordinator = Coordinator(self.scene, self.laws)
        self.provider = Provider(self.scene)
        self.clients = [self._client(number) for number in range(case.runs)]
        self._make_services()

    def play(self) -> None:
        """Let everything happen until nothing can any more. Raises `Violation`."""
        clock = self.scene.clock
        self.scene.store.publish(ORG, self.case.text)
        if '"run"' in self.case.text.decode():
            self.scene.store.publish(ORG, json.dumps(random_child(self.case.seed)).encode())
        random = self.scene.stream("clients")
        for client in self.clients:
            clock.later(random.uniform(0.0, 3.0), client.begin)
        while clock.open or not self._ended():
            clock.step()
            if clock.now > CALM_AFTER + PATIENCE:
                raise Violation(f"liveness: {self._unfinished()}")
        check_endings(self.case, self.scene, self.provider, self.clients)

    def runs(self) -> list[UUID]:
        """Return the runs that there are."""
        return [client.run_id for client in self.clients if client.run_id is not None]

    def _client(self, number: int) -> Client:
        call = StartCall(f"key-{number}", str(self.case.document["name"]), self.case.payload)
        sender = Sender(self.scene, self.coordinator, self.case.document["nodes"])
        return Client(self.scene, self.coordinator, call, sender)

    def _make_services(self) -> None:
        scene, clock = self.scene, self.scene.clock
        random = scene.stream("rounds")
        queue = Queue(scene)
        clock.every(relay.ROUND, relay.Relay(scene, queue).round)
        timer = services.TimerService(scene, self.coordinator)
        clock.every(services.TIMER_ROUND, timer.round)
        sweeper = services.Sweeper(scene, self.coordinator)
        clock.every(services.SWEEP_ROUND, sweeper.round)
        somebody = person.Person(scene, self.coordinator, self.provider)
        clock.every(person.ROUND, somebody.round)
        for number in range(WORKERS):
            one = worker.Worker(scene, f"worker-{number}", self.coordinator, queue, self.provider)
            clock.later(random.uniform(0, 0.5), partial(clock.every, worker.ROUND, one.round))

    def _ended(self) -> bool:
        store = self.scene.store
        return not store.timers() and all(
            store.run(run_id).status is not RunStatus.RUNNING
            and all(step.status in ENDED for step in store.steps(run_id))
            for run_id in store.all_runs()
        )

    def _unfinished(self) -> str:
        store = self.scene.store
        steps = [step for run_id in store.all_runs() for step in store.steps(run_id)]
        return ", ".join(f"{s.node} is {s.status}" for s in steps if s.status not in ENDED)
