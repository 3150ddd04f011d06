"""Heartbeats and releases: what becomes of tasks while they are their handlers'."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_contracts.v1.worker_service_pb2 import (
    TASK_STATUS_AGAIN,
    TASK_STATUS_LOST,
    TASK_STATUS_OK,
    Heartbeat,
    TaskStatus,
)
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component

from perdure_worker.coordinator import Answered, Coordinator
from perdure_worker.door.handing import duration

MAX_CALLS = 64
"""Calls whose heartbeats one request to the coordinator carries."""

MAX_LEASES = 1000
"""Leases that it carries."""

Leases = Sequence[StepLease]
Renewed = Sequence[Answered[pb.RenewLeaseResult]]
Tokens = Sequence[TaskToken | None]
"""Tokens as they were read; None for one that is not good."""


class Keeping(Component):
    """Renews and hands back leases by their tokens; one that is not good counts as lost."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__()
        self._coordinator = coordinator
        self._renewing: Batcher[Leases, Renewed] = Batcher(
            self._renew, MAX_CALLS, weigh=len, max_weight=MAX_LEASES
        )

    async def on_start(self) -> None:
        """Take heartbeats."""
        await self._renewing.start()

    async def on_stop(self) -> None:
        """Send what was taken."""
        await self._renewing.stop()

    async def keep(self, tokens: Tokens) -> list[Heartbeat]:
        """Renew leases; answer in order. Raises PerdureError where nobody answers."""
        leases = [token.lease for token in tokens if token is not None]
        answers = iter(await self._renewing.submit(leases) if leases else ())
        lost = Heartbeat(status=TASK_STATUS_LOST)
        return [lost if token is None else _heartbeat(next(answers)) for token in tokens]

    async def hand_back(self, tokens: Tokens) -> list[TaskStatus.ValueType]:
        """Release leases; answer in order. Raises PerdureError where nobody answers."""
        leases = [token.lease for token in tokens if token is not None]
        answers = iter(await self._coordinator.release(leases) if leases else ())
        return [TASK_STATUS_LOST if token is None else _status(next(answers)) for token in tokens]

    async def _renew(self, calls: list[Leases]) -> list[Renewed]:
        answers = iter(await self._coordinator.renew([lease for call in calls for lease in call]))
        return [[next(answers) for _ in call] for call in calls]


def _heartbeat(answered: Answered[pb.RenewLeaseResult]) -> Heartbeat:
    result = answered.answer
    if isinstance(result, PerdureError) or result.status == pb.RENEW_STATUS_AGAIN:
        return Heartbeat(status=TASK_STATUS_AGAIN)
    if result.status != pb.RENEW_STATUS_RENEWED:
        return Heartbeat(status=TASK_STATUS_LOST)
    return Heartbeat(
        status=TASK_STATUS_OK,
        lease=duration(result.lease_ms / 1000),
        cancel_requested=result.cancel_requested,
    )


def _status(answered: Answered[pb.ItemStatus.ValueType]) -> TaskStatus.ValueType:
    if isinstance(answered.answer, PerdureError) or answered.answer == pb.ITEM_STATUS_AGAIN:
        return TASK_STATUS_AGAIN
    return TASK_STATUS_LOST if answered.answer == pb.ITEM_STATUS_STALE else TASK_STATUS_OK
