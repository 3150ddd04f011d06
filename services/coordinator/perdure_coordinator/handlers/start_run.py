"""StartRun: many starts in one transaction, each answered for itself."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

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
    with ExitStack() as starting:
        requests = [_request(item, _traced(item, starting)) for item in request.items]
        outcomes = await asyncio.gather(*map(starts.offer, requests))
        found = [
            await _signalled(signals, asked, outcome)
            for asked, outcome in zip(requests, outcomes, strict=True)
        ]
    return StartRunResponse(results=map(_result, found))


def _traced(item: StartRunItem, starting: ExitStack) -> str:
    """Return the trace that the run goes on; `starting` gets a span of its start."""
    facts = {"perdure.org": item.org, "perdure.workflow": item.workflow}
    began = span("run start", parent=item.traceparent, attributes=facts)
    return starting.enter_context(began).traceparent or item.traceparent


def _result(outcome: StartOutcome) -> StartRunResult:
    if isinstance(outcome, PerdureError):
        return StartRunResult(error=error_message(outcome))
    return StartRunResult(
        run_id=str(outcome.run_id),
        workflow_version=outcome.workflow_version,
        created=outcome.created,
    )


async def _signalled(
    signals: Signals, request: StartRequest, outcome: StartOutcome
) -> StartOutcome:
    """Send the signal of a start to the run that was there already."""
    is_new = not isinstance(outcome, StartAnswer) or outcome.created
    if is_new or request.signal is None:
        return outcome
    try:
        await signals.send(request.org, request.signal, outcome.run_id)
    except PerdureError as refusal:
        return refusal
    return outcome


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
