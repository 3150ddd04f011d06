"""The coordinator's calls that a worker makes, each with its fail point and its time limit.

Answers come with the instant at which their request was sent. Every call may be repeated: a repeat
under the same ids gets the same answer. A batch that is refused as a whole is sent again in halves,
so that one item, or the size of all answers together (F091), does not stand in the others' way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from perdure_contracts.internal.v1.connections_pb2 import (
    OpenConnectionRequest,
    OpenConnectionResponse,
)
from perdure_contracts.internal.v1.control_service_pb2 import Lane, ListLanesRequest
from perdure_contracts.internal.v1.control_service_pb2_grpc import ControlServiceStub
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    AcquireLeaseItem,
    AcquireLeaseRequest,
    AcquireLeaseResult,
    ItemStatus,
    ReleaseLeaseRequest,
    RenewLeaseRequest,
    RenewLeaseResult,
    ReportResultItem,
    ReportResultRequest,
    ReportResultResult,
)
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_contracts.internal.v1.effects_pb2 import (
    BeginEffectItem,
    BeginEffectRequest,
    BeginEffectResult,
    SettleEffectItem,
    SettleEffectRequest,
    SettleEffectResult,
)
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepRequest
from perdure_runtime.clock import Clock
from perdure_runtime.errors import Aborted, DeadlineExceeded, PerdureError, Unavailable
from perdure_runtime.fail_points import declare
from perdure_runtime.rpc.client import RpcClient

from perdure_worker.hand_out import HandOut, hand_out

ACQUIRE_LEASE = declare("worker.acquire_lease")
AWAIT_STEP = declare("worker.await_step")
RENEW_LEASE = declare("worker.renew_lease")
REPORT_RESULT = declare("worker.report_result")
RELEASE_LEASE = declare("worker.release_lease")
LIST_LANES = declare("worker.list_lanes")
BEGIN_EFFECT = declare("worker.begin_effect")
SETTLE_EFFECT = declare("worker.settle_effect")
OPEN_CONNECTION = declare("worker.open_connection")

CALL_SECONDS = 5.0
"""Longest time of one call with its repeats; shorter than a hand-out's lease."""

MAX_ITEMS = 256
"""Most items of one message where nothing else is said (P5)."""

NOT_NOW = (Unavailable, DeadlineExceeded, Aborted)
"""What says nothing about the items: the same call may go well later."""

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Answered(Generic[AnswerT]):
    """An item's answer, or the error that refused it alone; `sent_at` is a monotonic instant."""

    sent_at: float
    answer: AnswerT | PerdureError


class Coordinator:
    """The worker's side of the hot path; one message takes at most `max_items`."""

    def __init__(
        self,
        client: RpcClient,
        worker: str,
        queues: Sequence[str],
        clock: Clock,
        max_items: int = MAX_ITEMS,
    ) -> None:
        self.max_items = max_items
        self._client = client
        self._worker = worker
        self._queues = tuple(queues)
        self._clock = clock
        self._hot = CoordinatorServiceStub(client.batches)
        self._single = CoordinatorServiceStub(client.channel)
        self._control = ControlServiceStub(client.channel)

    async def acquire(self, items: list[AcquireLeaseItem]) -> list[Answered[AcquireLeaseResult]]:
        """Ask for leases. Raises one of NOT_NOW."""
        return await self._in_parts(self._acquire, items)

    async def await_step(self, lease_id: str, seconds: float) -> HandOut | None:
        """Wait for a step and return it, leased under this id; None if none came in time.

        Sent once, since a lease id may be used without an answer. Raises PerdureError.
        """
        request = AwaitStepRequest(
            worker=self._worker,
            queues=self._queues,
            lease_id=lease_id,
            wait_ms=round(seconds * 1000),
        )
        sent_at = self._clock.monotonic()
        answer = await self._client.call_once(
            self._hot.AwaitStep, request, timeout=seconds + CALL_SECONDS, fail_point=AWAIT_STEP
        )
        if not answer.HasField("grant"):
            return None
        # The coordinator took the time between two moments after this was sent and before the
        # lease, so the lease is counted from no later than when the database gave it (R7).
        return hand_out(answer.grant, sent_at + answer.waited_ms / 1000)

    async def report(self, items: list[ReportResultItem]) -> list[Answered[ReportResultResult]]:
        """Tell how tries ended. Raises one of NOT_NOW."""
        return await self._in_parts(self._report, items)

    async def release(self, leases: list[StepLease]) -> list[Answered[ItemStatus.ValueType]]:
        """Hand steps back. Raises one of NOT_NOW."""
        return await self._in_parts(self._release, leases)

    async def renew(self, leases: list[StepLease]) -> list[Answered[RenewLeaseResult]]:
        """Extend leases. Raises one of NOT_NOW."""
        return await self._in_parts(self._renew, leases)

    async def begin_effect(self, items: list[BeginEffectItem]) -> list[Answered[BeginEffectResult]]:
        """Ask to make outside calls. Raises one of NOT_NOW."""
        return await self._in_parts(self._begin_effect, items)

    async def settle_effect(
        self, items: list[SettleEffectItem]
    ) -> list[Answered[SettleEffectResult]]:
        """Tell what became of outside calls. Raises one of NOT_NOW."""
        return await self._in_parts(self._settle_effect, items)

    async def open_connection(self, lease: StepLease, name: str) -> OpenConnectionResponse:
        """Ask for a connection under a step's lease. Raises PerdureError."""
        return await self._client.call(
            self._single.OpenConnection,
            OpenConnectionRequest(lease=lease, name=name),
            timeout=CALL_SECONDS,
            fail_point=OPEN_CONNECTION,
        )

    async def lanes(self) -> Sequence[Lane]:
        """Return every lane. Raises PerdureError."""
        answer = await self._client.call(
            self._control.ListLanes,
            ListLanesRequest(),
            timeout=CALL_SECONDS,
            fail_point=LIST_LANES,
        )
        return answer.lanes

    async def _acquire(self, items: list[AcquireLeaseItem]) -> Sequence[AcquireLeaseResult]:
        request = AcquireLeaseRequest(worker=self._worker, items=items)
        answer = await self._client.call(
            self._hot.AcquireLease, request, timeout=CALL_SECONDS, fail_point=ACQUIRE_LEASE
        )
        return answer.results

    async def _report(self, items: list[ReportResultItem]) -> Sequence[ReportResultResult]:
        request = ReportResultRequest(worker=self._worker, queues=self._queues, items=items)
        answer = await self._client.call(
            self._hot.ReportResult, request, timeout=CALL_SECONDS, fail_point=REPORT_RESULT
        )
        return answer.results

    async def _release(self, leases: list[StepLease]) -> Sequence[ItemStatus.ValueType]:
        answer = await self._client.call(
            self._hot.ReleaseLease,
            ReleaseLeaseRequest(leases=leases),
            timeout=CALL_SECONDS,
            fail_point=RELEASE_LEASE,
        )
        return answer.results

    async def _renew(self, leases: list[StepLease]) -> Sequence[RenewLeaseResult]:
        answer = await self._client.call(
            self._hot.RenewLease,
            RenewLeaseRequest(leases=leases),
            timeout=CALL_SECONDS,
            fail_point=RENEW_LEASE,
        )
        return answer.results

    async def _begin_effect(self, items: list[BeginEffectItem]) -> Sequence[BeginEffectResult]:
        answer = await self._client.call(
            self._hot.BeginEffect,
            BeginEffectRequest(items=items),
            timeout=CALL_SECONDS,
            fail_point=BEGIN_EFFECT,
        )
        return answer.results

    async def _settle_effect(self, items: list[SettleEffectItem]) -> Sequence[SettleEffectResult]:
        answer = await self._client.call(
            self._hot.SettleEffect,
            SettleEffectRequest(items=items),
            timeout=CALL_SECONDS,
            fail_point=SETTLE_EFFECT,
        )
        return answer.results

    async def _in_parts(
        self,
        send: Callable[[list[ItemT]], Awaitable[Sequence[AnswerT]]],
        items: list[ItemT],
    ) -> list[Answered[AnswerT]]:
        sent_at = self._clock.monotonic()
        try:
            answers = await send(items)
        except NOT_NOW:
            raise
        except PerdureError as refusal:
            if len(items) == 1:
                return [Answered(sent_at, refusal)]
            middle = len(items) // 2
            first = await self._in_parts(send, items[:middle])
            return first + await self._in_parts(send, items[middle:])
        return [Answered(sent_at, answer) for answer in answers]
