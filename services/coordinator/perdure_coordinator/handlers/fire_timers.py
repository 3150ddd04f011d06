"""FireTimers: due timers and internal events; one that fails is put off (protocol p5)."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_AGAIN,
    ITEM_STATUS_EARLY,
    FireTimersRequest,
    FireTimersResponse,
    FireTimersResult,
    TimerRef,
)
from perdure_machine.events import FireTimer
from perdure_machine.replies import Early, Reply
from perdure_runtime.errors import NotFound, PerdureError
from perdure_store.pool import acquire
from perdure_store.timers import drop_orphans, put_off

from perdure_coordinator.answers import in_time, item_status
from perdure_coordinator.committers import Committers
from perdure_coordinator.messages import parse_uuid


async def fire_timers(
    committers: Committers, spare: asyncpg.Pool, request: FireTimersRequest
) -> FireTimersResponse:
    """Deliver the timers and answer in order."""
    answers = await in_time(_submit(committers, timer) for timer in request.timers)
    await _tidy(spare, request.timers, answers)
    return FireTimersResponse(results=map(_result, answers))


async def _submit(committers: Committers, timer: TimerRef) -> Reply:
    run_id = parse_uuid(timer.run_id, "timers.run_id")
    return await committers.submit(run_id, timer.org, FireTimer(timer.timer_id))


async def _tidy(
    spare: asyncpg.Pool,
    timers: Sequence[TimerRef],
    answers: Sequence[Reply | PerdureError | None],
) -> None:
    """Put off what failed and delete what has no run: both would be picked first for ever."""
    failed = [t.timer_id for t, a in zip(timers, answers, strict=True) if _failed(a)]
    orphans = [t.timer_id for t, a in zip(timers, answers, strict=True) if isinstance(a, NotFound)]
    if not failed and not orphans:
        return
    async with acquire(spare) as connection:
        if failed:
            await put_off(connection, failed)
        if orphans:
            await drop_orphans(connection, orphans)


def _failed(answer: Reply | PerdureError | None) -> bool:
    return isinstance(answer, PerdureError) and not isinstance(answer, NotFound)


def _result(answer: Reply | PerdureError | None) -> FireTimersResult:
    if isinstance(answer, Early):
        remaining = max(1, int(answer.remaining * 1000))
        return FireTimersResult(status=ITEM_STATUS_EARLY, remaining_ms=remaining)
    if _failed(answer):
        return FireTimersResult(status=ITEM_STATUS_AGAIN)
    return FireTimersResult(status=item_status(answer))
