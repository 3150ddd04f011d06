"""A coordinator's callers for tests: what ingest, a worker, the timer and the sweeper ask of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import grpc
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import effects_pb2 as effects
from perdure_contracts.internal.v1 import offers_pb2 as offers
from perdure_contracts.internal.v1.control_service_pb2 import (
    PublishWorkflowRequest,
    PublishWorkflowResponse,
)
from perdure_contracts.internal.v1.control_service_pb2_grpc import ControlServiceStub
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_contracts.internal.v1.dispatch_pb2 import (
    EffectOutcome,
    ExpiredLease,
    StepFailure,
    StepGrant,
    StepLease,
)
from perdure_contracts.internal.v1.signals_pb2 import SignalContent

SECONDS = 10.0
"""Deadline of each call."""


class Calls:
    """Calls the coordinator at the other end of `channel`, for one org and as one worker."""

    def __init__(
        self, channel: grpc.aio.Channel, *, org: str = "default", worker: str = "worker-1"
    ) -> None:
        self.channel = channel
        self.org = org
        self.worker = worker
        self.hot = CoordinatorServiceStub(channel)
        self.control = ControlServiceStub(channel)

    async def publish(self, document: str) -> PublishWorkflowResponse:
        """Publish a document."""
        request = PublishWorkflowRequest(org=self.org, document=document.encode())
        return await self.control.PublishWorkflow(request, timeout=SECONDS)

    async def start(self, workflow: str = "w", **fields: Any) -> UUID:
        """Start a run, which must be possible, and return its id."""
        (result,) = await self.start_all([self.item(workflow, **fields)])
        assert not result.HasField("error"), result.error
        return UUID(result.run_id)

    async def start_all(self, items: Iterable[hot.StartRunItem]) -> list[hot.StartRunResult]:
        """Start in one call."""
        answer = await self.hot.StartRun(hot.StartRunRequest(items=items), timeout=SECONDS)
        return list(answer.results)

    def item(self, workflow: str = "w", **fields: Any) -> hot.StartRunItem:
        """A start of the org's."""
        return hot.StartRunItem(**{"org": self.org, "workflow": workflow, **fields})

    async def acquire(
        self, *runs: UUID, step: int = 1, lease_id: str = ""
    ) -> list[hot.AcquireLeaseResult]:
        """Ask for one step of each run, under new lease ids or the one given."""
        items = [
            hot.AcquireLeaseItem(
                org=self.org, run_id=str(run), step=step, lease_id=lease_id or str(uuid.uuid4())
            )
            for run in runs
        ]
        request = hot.AcquireLeaseRequest(worker=self.worker, items=items)
        return list((await self.hot.AcquireLease(request, timeout=SECONDS)).results)

    def offer(
        self, *queues: str, wait_ms: int = 10_000
    ) -> grpc.aio.UnaryUnaryCall[offers.AwaitStepRequest, offers.AwaitStepResponse]:
        """Offer to take a first step of these queues; return the call, which waits for one."""
        request = offers.AwaitStepRequest(
            worker=self.worker, queues=queues, lease_id=str(uuid.uuid4()), wait_ms=wait_ms
        )
        return self.hot.AwaitStep(request, timeout=SECONDS + wait_ms / 1000)

    async def grant(self, run: UUID, step: int = 1) -> StepGrant:
        """Take a step, which must be free."""
        (result,) = await self.acquire(run, step=step)
        assert result.status == hot.ACQUIRE_STATUS_GRANTED, result
        return result.grant

    async def report(
        self, *items: hot.ReportResultItem, queues: Iterable[str] = ()
    ) -> list[hot.ReportResultResult]:
        """Tell how tries ended."""
        request = hot.ReportResultRequest(worker=self.worker, queues=queues, items=items)
        return list((await self.hot.ReportResult(request, timeout=SECONDS)).results)

    async def succeed(self, lease: StepLease, output: bytes = b"1") -> hot.ReportResultResult:
        """Tell that a try ended well."""
        (result,) = await self.report(hot.ReportResultItem(lease=lease, output=output))
        return result

    async def fail(self, lease: StepLease, category: str = "retryable") -> hot.ReportResultResult:
        """Tell that a try failed."""
        failure = StepFailure(code="BROKEN", message="broken")
        setattr(failure, "class", category)
        (result,) = await self.report(hot.ReportResultItem(lease=lease, failure=failure))
        return result

    async def begin_effect(
        self, lease: StepLease, token: UUID | None = None, **fields: Any
    ) -> effects.BeginEffectResult:
        """Ask whether a call may be made."""
        item = effects.BeginEffectItem(
            **{"name": "request", "kind": "none", "call_ms": 20_000, **fields},
            lease=lease,
            token=str(token or uuid.uuid4()),
        )
        request = effects.BeginEffectRequest(items=[item])
        (result,) = (await self.hot.BeginEffect(request, timeout=SECONDS)).results
        return result

    async def settle_effect(
        self, run: UUID, key: str, token: UUID, outcome: EffectOutcome.ValueType, **fields: Any
    ) -> effects.SettleEffectResult:
        """Tell what became of a call."""
        item = effects.SettleEffectItem(
            org=self.org, run_id=str(run), key=key, token=str(token), outcome=outcome, **fields
        )
        request = effects.SettleEffectRequest(items=[item])
        (result,) = (await self.hot.SettleEffect(request, timeout=SECONDS)).results
        return result

    async def decide_effect(
        self, run: UUID, key: str, **decision: Any
    ) -> effects.DecideEffectResult:
        """Say as a person what became of a call."""
        item = effects.DecideEffectItem(
            org=self.org, run_id=str(run), key=key, actor="ann", **decision
        )
        request = effects.DecideEffectRequest(items=[item])
        (result,) = (await self.hot.DecideEffect(request, timeout=SECONDS)).results
        return result

    async def renew(self, *leases: StepLease) -> list[hot.RenewLeaseResult]:
        """Ask for more time."""
        request = hot.RenewLeaseRequest(leases=leases)
        return list((await self.hot.RenewLease(request, timeout=SECONDS)).results)

    async def release(self, *leases: StepLease) -> list[hot.ItemStatus.ValueType]:
        """Hand steps back."""
        request = hot.ReleaseLeaseRequest(leases=leases)
        return list((await self.hot.ReleaseLease(request, timeout=SECONDS)).results)

    async def cancel(self, *runs: UUID) -> list[hot.CancelRunResult]:
        """Cancel runs."""
        items = [hot.CancelRunItem(org=self.org, run_id=str(run), reason="test") for run in runs]
        request = hot.CancelRunRequest(items=items)
        return list((await self.hot.CancelRun(request, timeout=SECONDS)).results)

    async def command(
        self, command: hot.RunCommand.ValueType, *runs: UUID
    ) -> list[hot.CommandRunResult]:
        """Do to runs what people ask for."""
        items = [
            hot.CommandRunItem(org=self.org, run_id=str(run), command=command, reason="test")
            for run in runs
        ]
        request = hot.CommandRunRequest(items=items)
        return list((await self.hot.CommandRun(request, timeout=SECONDS)).results)

    async def fire(self, *timers: hot.TimerRef) -> list[hot.FireTimersResult]:
        """Deliver timers."""
        request = hot.FireTimersRequest(timers=timers)
        return list((await self.hot.FireTimers(request, timeout=SECONDS)).results)

    def signal_item(
        self, name: str, target: UUID | str, data: bytes = b"1", *, signal_id: str = ""
    ) -> hot.SignalItem:
        """A signal of the org's to a run, or by a key; without an id it is one of its own."""
        signal = SignalContent(name=name, data=data, signal_id=signal_id or str(uuid.uuid4()))
        if isinstance(target, UUID):
            return hot.SignalItem(org=self.org, run_id=str(target), signal=signal)
        return hot.SignalItem(org=self.org, key=target, signal=signal)

    async def signal(self, *items: hot.SignalItem) -> list[hot.SignalResult]:
        """Send signals in one call."""
        return list(
            (await self.hot.Signal(hot.SignalRequest(items=items), timeout=SECONDS)).results
        )

    async def expire(
        self, *leases: StepLease, timed_out: bool = False
    ) -> list[hot.ItemStatus.ValueType]:
        """Take leases away."""
        expired = [ExpiredLease(lease=lease, timed_out=timed_out) for lease in leases]
        request = hot.ExpireLeasesRequest(leases=expired)
        return list((await self.hot.ExpireLeases(request, timeout=SECONDS)).results)

    async def expire_runs(self, *runs: UUID) -> list[hot.ItemStatus.ValueType]:
        """End runs that are too old."""
        refs = [hot.RunRef(org=self.org, run_id=str(run)) for run in runs]
        request = hot.ExpireRunsRequest(runs=refs)
        return list((await self.hot.ExpireRuns(request, timeout=SECONDS)).results)
