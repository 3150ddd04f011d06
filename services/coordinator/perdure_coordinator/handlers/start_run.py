"""StartRun: many starts in one transaction, each answered for itself."""

from __future__ import annotations

import asyncio

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    StartRunItem,
    StartRunRequest,
    StartRunResponse,
    StartRunResult,
)
from perdure_machine.actions import Instant
from perdure_runtime.errors import PerdureError
from perdure_runtime.tracing import span
from perdure_store.apply.starter import StartAnswer, StartOutcome, StartRequest

from perdure_coordinator.children import Starts
from perdure_coordinator.messages import error_message, signal_state
from perdure_coordinator.signalling import Signals


async def start_run(starts: Starts, signals: Signals, request: StartRunRequest) -> StartRunResponse:
    """Start the runs and answer in order."""
    results = await asyncio.gather(*(_start(starts, signals, item) for item in request.items))
    return StartRunResponse(results=results)


async def _start(starts: Starts, signals: Signals, item: StartRunItem) -> StartRunResult:
    facts = {"perdure.org": item.org, "perdure.workflow": item.workflow}
    with span("run start", parent=item.traceparent, attributes=facts) as started:
        request = _request(item, started.traceparent or item.traceparent)
        outcome = await starts.submit(request)
        if isinstance(outcome, StartAnswer) and not outcome.created:
            outcome = await _signalled(signals, request, outcome)
    if isinstance(outcome, PerdureError):
        return StartRunResult(error=error_message(outcome))
    return StartRunResult(
        run_id=str(outcome.run_id),
        workflow_version=outcome.workflow_version,
        created=outcome.created,
    )


async def _signalled(signals: Signals, request: StartRequest, first: StartAnswer) -> StartOutcome:
    """Send the signal of a start to the run that was there already."""
    if request.signal is None:
        return first
    try:
        await signals.send(request.org, request.signal, first.run_id)
    except PerdureError as refusal:
        return refusal
    return first


def _request(item: StartRunItem, traceparent: str) -> StartRequest:
    return StartRequest(
        org=item.org,
        workflow=item.workflow,
        version=item.version,
        input=item.input or b"{}",
        start_key=item.start_key or None,
        tags=dict(item.tags),
        priority=item.priority,
        traceparent=traceparent or None,
        start=_begin(item),
        signal=signal_state(item.signal) if item.HasField("signal") else None,
    )


def _begin(item: StartRunItem) -> Instant | None:
    """Return when the run is to begin, None for at once."""
    if item.HasField("start_at"):
        return Instant(at=item.start_at.seconds + item.start_at.nanos / 1e9)
    after = item.start_after.seconds + item.start_after.nanos / 1e9
    return Instant(after=after) if after > 0 else None
