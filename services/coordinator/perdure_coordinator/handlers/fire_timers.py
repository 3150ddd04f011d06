"""FireTimers: due timers and internal events (protocol p5).

One that fails is put off, and in the end parks the step that goes on by it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_EARLY,
    FireTimersRequest,
    FireTimersResponse,
    FireTimersResult,
    TimerRef,
)
from perdure_machine.events import FireTimer, ParkOnTimer
from perdure_machine.replies import Applied, ChildUnwanted, ChildWanted, Early, Emission, Reply
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import NotFound, PerdureError, Unavailable
from perdure_store.timers import FailedDelivery

from perdure_coordinator.answers import found_status, in_time, once_applied
from perdure_coordinator.children import Children
from perdure_coordinator.committers import Committers, HeldElsewhere
from perdure_coordinator.messages import parse_uuid
from perdure_coordinator.signalling import Signals

PutOffs = Batcher[FailedDelivery, bool]
"""Takes timers whose delivery failed; answers whether each is to park its step."""

Cursors = Callable[[str, UUID, int], Awaitable[bool]]
"""Goes on with an org's migration or erasure by a timer of it; False where it hangs on none."""


@dataclass(frozen=True, slots=True)
class Firing:
    """What the delivery of timers needs."""

    committers: Committers
    children: Children
    signals: Signals
    put_offs: PutOffs
    cursors: Cursors


async def fire_timers(firing: Firing, request: FireTimersRequest) -> FireTimersResponse:
    """Deliver the timers and answer in order."""
    events = [_event(timer) for timer in request.timers]
    plain: Sequence[Reply | PerdureError | None] = [None] * len(events)
    if not request.internal:
        plain = await firing.committers.submit_timers(events)
    answers: Sequence[Reply | PerdureError | None] = await once_applied(
        plain, (partial(_deliver, firing, *event) for event in events)
    )
    return FireTimersResponse(results=map(_result, answers))


def _event(timer: TimerRef) -> tuple[UUID, str, FireTimer]:
    return parse_uuid(timer.run_id, "timers.run_id"), timer.org, FireTimer(timer.timer_id)


async def _deliver(
    firing: Firing, run_id: UUID, org: str, event: FireTimer, patience: float
) -> Reply | PerdureError | None:
    """Deliver one timer, and do what it asks for; None where that takes long."""
    reply = await _unless_failed(
        firing, run_id, org, event, _delivered(firing, run_id, org, event, patience)
    )
    if not isinstance(reply, ChildWanted | ChildUnwanted | Emission):
        return reply
    asked = _answered(firing, run_id, org, event, reply)
    (answer,) = await in_time([_unless_failed(firing, run_id, org, event, asked)])
    return answer


async def _answered(
    firing: Firing,
    run_id: UUID,
    org: str,
    event: FireTimer,
    asked: ChildWanted | ChildUnwanted | Emission,
) -> Reply:
    """Do what a timer asks for outside of its run, and tell the run."""
    if isinstance(asked, Emission):
        return await firing.signals.emit(org, run_id, asked)
    return await firing.children.answer(run_id, org, event.timer_id, asked)


async def _unless_failed(
    firing: Firing, run_id: UUID, org: str, event: FireTimer, delivery: Awaitable[Reply]
) -> Reply:
    """Return what is told of a delivery; one that fails would else be picked first for ever."""
    try:
        return await delivery
    except (Unavailable, HeldElsewhere):
        raise
    except PerdureError as error:
        await _put_off(firing, run_id, org, FailedDelivery(event.timer_id, error.message))
        raise


async def _put_off(firing: Firing, run_id: UUID, org: str, failed: FailedDelivery) -> None:
    """Let others come first; a step whose timer has failed for long is parked (protocol p5)."""
    if await firing.put_offs.submit(failed):
        park = ParkOnTimer(failed.timer_id, failed.failure)
        with contextlib.suppress(PerdureError):  # it is put off already, and tried again
            await firing.committers.submit(run_id, org, park)


async def _delivered(
    firing: Firing, run_id: UUID, org: str, event: FireTimer, patience: float
) -> Reply:
    """Deliver a timer to its run, or to the migration or erasure that it hangs on."""
    try:
        return await firing.committers.submit(run_id, org, event, patience=patience)
    except NotFound:
        if await firing.cursors(org, run_id, event.timer_id):
            return Applied()
        raise


def _result(answer: Reply | PerdureError | None) -> FireTimersResult:
    if isinstance(answer, Early):
        remaining = max(1, int(answer.remaining * 1000))
        return FireTimersResult(status=ITEM_STATUS_EARLY, remaining_ms=remaining)
    return FireTimersResult(status=found_status(answer))
