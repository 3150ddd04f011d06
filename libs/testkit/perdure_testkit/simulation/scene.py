"""What all who act in a simulation share: its clock, its store, its faults and its trace."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from uuid import UUID

from perdure_machine.events import Event
from perdure_machine.replies import Applied, Granted, Reply
from perdure_machine.view import StepState

from perdure_testkit.simulation.chance import stream
from perdure_testkit.simulation.clock import Clock
from perdure_testkit.simulation.faults import Faults
from perdure_testkit.simulation.store import Store
from perdure_testkit.simulation.trace import Trace

ORG = "acme"


class Violation(Exception):
    """The engine broke one of its laws; the text says which and how."""


@dataclass(slots=True)
class Scene:
    """The stage; `leases` numbers the leases, so that a trace reads well."""

    seed: int
    clock: Clock
    store: Store
    faults: Faults
    trace: Trace
    leases: count[int]

    def say(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self.trace.say(self.clock.now, who, what)

    def stream(self, *purpose: object) -> Random:
        """Return a source of numbers for a purpose."""
        return stream(self.seed, *purpose)

    def new_lease(self) -> UUID:
        """Return a lease id that no other lease has."""
        return UUID(int=next(self.leases))


def run_name(run_id: UUID) -> str:
    """Return how a trace calls a run: by its number, not by its time."""
    return f"run{run_id.int & 0xFFFF}"


def step_name(step: StepState) -> str:
    """Return how a trace calls a step."""
    where = f"{step.scope}/" if step.scope else ""
    return f"{where}{step.node}({step.step})"


def event_name(event: Event) -> str:
    """Return an event in one line, without what never decides anything."""
    members = [type(event).__name__]
    for name in ("step", "fence", "timer_id"):
        value = getattr(event, name, None)
        if value is not None:
            members.append(f"{name}={value}")
    lease = getattr(event, "lease_id", None)
    if lease is not None:
        members.append(f"lease={lease.int}")
    outcome = getattr(event, "outcome", None)
    if outcome is not None:
        members.append(type(outcome).__name__.lower())
    return " ".join(members)


def reply_name(reply: Reply) -> str:
    """Return an answer in one line."""
    match reply:
        case Granted(step=step):
            return f"Granted {step_name(step)} fence={step.fence}"
        case Applied(next=Granted(step=step)):
            return f"Applied, next {step_name(step)} fence={step.fence}"
        case _:
            return type(reply).__name__
