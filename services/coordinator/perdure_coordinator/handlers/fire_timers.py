"""FireTimers: due timers and internal events; one that fails is put off (protocol p5)."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_EARLY,
    FireTimersRequest,
    FireTimersResponse,
    FireTimersResult,
    TimerRef,
)
from perdure_machine.events import FireTimer
from perdure_machine.replies import Early, Reply
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import PerdureError, Unavailable

from perdure_coordinator.answers import found_status, in_time
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import parse_uuid

PutOffs = Batcher[int, None]
"""Takes the ids of timers whose delivery failed."""


async def fire_timers(
    committers: Committers, put_offs: PutOffs, request: FireTimersRequest
) -> FireTimersResponse:
    """Deliver the timers and answer in order."""
    firings = [_firing(timer) for timer in request.timers]
    answers = await in_time(_deliver(committers, put_offs, *firing) for firing in firings)
    return FireTimersResponse(results=map(_result, answers))


def _firing(timer: TimerRef) -> tuple[UUID, str, FireTimer]:
    return parse_uuid(timer.run_id, "timers.run_id"), timer.org, FireTimer(timer.timer_id)


async def _deliver(
    committers: Committers, put_offs: PutOffs, run_id: UUID, org: str, event: FireTimer
) -> Reply:
    """Deliver one timer, however late; one that fails would else be picked first for ever."""
    try:
        return await committers.submit(run_id, org, event)
    except Unavailable:
        raise
    except PerdureError:
        await put_offs.submit(event.timer_id)
        raise


def _result(answer: Reply | PerdureError | None) -> FireTimersResult:
    if isinstance(answer, Early):
        remaining = max(1, int(answer.remaining * 1000))
        return FireTimersResult(status=ITEM_STATUS_EARLY, remaining_ms=remaining)
    return FireTimersResult(status=found_status(answer))
