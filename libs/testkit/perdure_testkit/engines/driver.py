"""Drives runs on an engine as workers, the timer service and the sweeper do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import (
    Acquire,
    BeginEffect,
    DeliverSignals,
    Event,
    ExpireLease,
    Failed,
    Offer,
    Queue,
    RefusedConnection,
    Report,
    SettleEffect,
    Succeeded,
)
from perdure_machine.mailbox import SignalState
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, EffectBegun, Granted, Reply
from perdure_machine.states import EffectOutcome
from perdure_machine.view import NodeError, StepState
from perdure_runtime.errors import PerdureError

from perdure_testkit.engines.port import Engine, Lease, MigrationOf, RunStarted, StartOf

ORG = "acme"
MAX_ROUNDS = 200

_lease_numbers = count(1)
_workflow_numbers = count(1)
_signal_numbers = count(1)


def new_lease() -> UUID:
    """Return a lease id that no other lease has."""
    return UUID(int=next(_lease_numbers))


def new_signal_id() -> str:
    """Return an id that no other signal has."""
    return f"signal-{next(_signal_numbers)}"


def _new_workflow() -> str:
    return f"flow-{next(_workflow_numbers)}"


@dataclass(frozen=True, slots=True)
class Driver:
    """Acts for one org, on a workflow whose name no other driver has."""

    engine: Engine
    org: str = ORG
    workflow: str = field(default_factory=_new_workflow)

    async def publish(self, nodes: Mapping[str, object], **members: object) -> int:
        """Publish the workflow with these nodes and further members; return its version."""
        document = {"name": self.workflow, "nodes": nodes, **members}
        return await self.engine.publish(self.org, json.dumps(document).encode())

    async def start(self, payload: bytes = b"{}", **asked: object) -> UUID:
        """Start a run of the workflow."""
        return (await self.started(payload, **asked)).run_id

    async def started(self, payload: bytes = b"{}", **asked: object) -> RunStarted:
        """Start a run of the workflow, with further fields of `StartOf`; return the answer."""
        start = replace(StartOf(self.workflow, payload), **asked)  # type: ignore[arg-type]
        return await self.engine.start(self.org, start)

    async def migrate(self, **asked: object) -> list[tuple[str, str]]:
        """Migrate runs of the workflow, with fields of `MigrationOf`; return codes and nodes.

        They say why runs would stay.
        """
        asking = replace(MigrationOf(self.workflow), **asked)  # type: ignore[arg-type]
        found = await self.engine.migrate(self.org, asking)
        return [(one.code, one.node) for refusals in found.values() for one in refusals]

    async def submit(self, run_id: UUID, event: Event) -> Reply:
        """Apply one event. Raises its refusal."""
        (answer,) = await self.engine.submit(self.org, run_id, event)
        if isinstance(answer, PerdureError):
            raise answer
        if isinstance(answer, Applied) and answer.tried is not None:
            await self.engine.tell(self.org, answer.tried)
        return answer

    async def step(self, run_id: UUID, node: str) -> StepState:
        """Return the newest step of a node; one in a scope is named like `batch[0].charge`."""
        return {path_of(step): step for step in await self.engine.steps(run_id)}[node]

    async def statuses(self, run_id: UUID) -> dict[str, str]:
        """Return the status of every node that has a step, by its path."""
        return {path_of(step): str(step.status) for step in await self.engine.steps(run_id)}

    async def kinds(self, run_id: UUID) -> list[str]:
        """Return the kinds of the history's lines."""
        return [line.kind for line in await self.engine.history(run_id)]

    async def acquire(self, run_id: UUID, node: str, lease_id: UUID | None = None) -> Granted:
        """Lease the queued step of a node."""
        step = await self.step(run_id, node)
        reply = await self.submit(run_id, Acquire(step.step, lease_id or new_lease(), "worker"))
        assert isinstance(reply, Granted)
        return reply

    async def succeed(
        self,
        granted: Granted,
        output: bytes = b"null",
        *,
        effect: EffectOutcome | None = None,
        offer: Offer | None = None,
    ) -> Reply:
        """Report that the try ended well."""
        return await self.submit(
            granted.run.run_id, success(granted, output, effect=effect, offer=offer)
        )

    async def fail(
        self,
        granted: Granted,
        category: ErrorClass = ErrorClass.RETRYABLE,
        code: str = "BROKEN",
        *,
        effect: EffectOutcome | None = None,
        retry_after: float | None = None,
        generation: int = 0,
        refused: RefusedConnection | None = None,
    ) -> Reply:
        """Report that the try failed."""
        event = failure(
            granted,
            category,
            code,
            effect=effect,
            retry_after=retry_after,
            generation=generation,
            refused=refused,
        )
        return await self.submit(granted.run.run_id, event)

    async def begin(self, granted: Granted, **asked: object) -> Reply:
        """Begin an effect of a step, the one of its node unless `asked` are other fields."""
        return await self.submit(granted.run.run_id, beginning(granted, **asked))

    async def tell(
        self, run_id: UUID, begun: BeginEffect, key: str, outcome: EffectOutcome, **told: object
    ) -> Reply:
        """Tell what became of an effect that was begun, or looked up."""
        event = SettleEffect(key, begun.token, outcome)
        return await self.submit(run_id, replace(event, **told))  # type: ignore[arg-type]

    async def call(self, run_id: UUID, node: str) -> Granted:
        """Lease the queued step of a node and begin its call, unless that rides."""
        granted = await self.acquire(run_id, node)
        if granted.begins is not None:
            assert isinstance(await self.begin(granted), EffectBegun)
        return granted

    async def fire_due(self) -> list[Reply]:
        """Deliver every timer that is due now, each in an event of its own."""
        due = [timer for timer in await self.engine.timers() if timer.remaining <= 0]
        return [await self.engine.fire(timer) for timer in due]

    async def send(
        self,
        run_id: UUID,
        name: str = "go",
        data: bytes = b"null",
        *,
        signal_id: str | None = None,
    ) -> bool:
        """Send a signal to a run; return whether it is new."""
        signal = SignalState(signal_id or new_signal_id(), name, data)
        new, _ = await self.engine.signal(self.org, signal, run_id)
        return new

    async def send_by(
        self,
        key: str,
        name: str = "go",
        data: bytes = b"null",
        *,
        signal_id: str | None = None,
    ) -> tuple[bool, UUID | None]:
        """Send a signal by key; return whether it is new, and whose it is."""
        signal = SignalState(signal_id or new_signal_id(), name, data, key)
        return await self.engine.signal(self.org, signal)

    async def answer(
        self, token: str, data: bytes = b"null", *, signal_id: str | None = None
    ) -> bool:
        """Answer a callback; return whether this is new."""
        signal = SignalState(signal_id or new_signal_id(), "", data)
        return await self.engine.answer_callback(self.org, token, signal)

    async def sweep_signals(self) -> list[Reply]:
        """Deliver what was stored and never delivered."""
        found = await self.engine.undelivered()
        return [await self.submit(one.run_id, DeliverSignals(one.name)) for one in found]

    async def expire_due(self) -> list[Reply]:
        """Take away every lease that ran out."""
        found = await self.engine.expired()
        return [await self.submit(lease.run_id, expiry(lease)) for lease in found]

    async def settle(self) -> None:
        """Let everything that is due now happen, and what follows from it."""
        for _ in range(MAX_ROUNDS):
            if not await self.fire_due() and not await self.expire_due():
                return
        raise AssertionError("timers go on for ever")

    async def drain(self, output: bytes = b"null") -> None:
        """Do all work well until nothing is queued and no timer is left."""
        for _ in range(MAX_ROUNDS):
            await self.settle()
            queued = await self.engine.queued()
            for run_id, step in queued:
                reply = await self.submit(run_id, Acquire(step, new_lease(), "worker"))
                if isinstance(reply, Granted):
                    await self.succeed(reply, output)
            if queued:
                continue
            waits = [timer.remaining for timer in await self.engine.timers()]
            if not waits:
                return
            await self.engine.advance(max(0.0, min(waits)) + 0.001)
        raise AssertionError("the runs go on for ever")


def beginning(granted: Granted, **asked: object) -> BeginEffect:
    """Return the event by which the holder of a step begins a call, under a token of its own."""
    step, plan = granted.step, granted.begins
    assert step.lease_id is not None
    event = BeginEffect(
        step.step,
        step.fence,
        step.lease_id,
        plan.name if plan else "call",
        plan.kind if plan else EffectKind.NONE,
        new_lease(),
        call_for=20.0,
        keep=plan.keep if plan else None,
        can_look_up=plan is not None and plan.can_look_up,
    )
    return replace(event, **asked)  # type: ignore[arg-type]


def path_of(step: StepState) -> str:
    """Return where a step stands: its node, after the scope that this is in."""
    return f"{step.scope}.{step.node}" if step.scope else step.node


def success(
    granted: Granted,
    output: bytes = b"null",
    *,
    effect: EffectOutcome | None = None,
    offer: Offer | None = None,
) -> Report:
    """Return the report of a try that ended well."""
    step = granted.step
    assert step.lease_id is not None
    return Report(
        step.step, step.fence, step.lease_id, Succeeded(output), effect=effect, offer=offer
    )


def failure(
    granted: Granted,
    category: ErrorClass = ErrorClass.RETRYABLE,
    code: str = "BROKEN",
    *,
    effect: EffectOutcome | None = None,
    retry_after: float | None = None,
    generation: int = 0,
    refused: RefusedConnection | None = None,
) -> Report:
    """Return the report of a try that failed."""
    step = granted.step
    assert step.lease_id is not None
    failed = Failed(NodeError(category, code, "it broke"), retry_after, refused)
    return Report(
        step.step,
        step.fence,
        step.lease_id,
        failed,
        effect=effect,
        connection_generation=generation,
    )


def expiry(lease: Lease) -> ExpireLease:
    """Return the event that takes a lease away."""
    return ExpireLease(lease.step, lease.fence, lease.lease_id, lease.timed_out)


def lease_of(granted: Granted) -> Lease:
    """Return the lease of a grant, as an engine renews it."""
    step = granted.step
    assert step.lease_id is not None
    return Lease(granted.run.run_id, step.step, step.fence, step.lease_id, timed_out=False)


def offer_of(*queues: str) -> Offer:
    """Return a reporter's offer to take a step of `lane:owner` queues under a new lease."""
    named = (queue.partition(":") for queue in queues)
    return Offer(new_lease(), "worker", frozenset(Queue(lane, owner) for lane, _, owner in named))
