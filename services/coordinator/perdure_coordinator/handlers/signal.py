"""Signal: to runs, or by correlation keys."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    SignalItem,
    SignalRequest,
    SignalResponse,
    SignalResult,
)
from perdure_machine.mailbox import SignalState
from perdure_runtime.errors import PerdureError, Reason, Unavailable
from perdure_store.signals import Kept

from perdure_coordinator.answers import in_time
from perdure_coordinator.messages import error_message, parse_uuid, signal_state
from perdure_coordinator.signalling import Signals


async def signal(signals: Signals, request: SignalRequest) -> SignalResponse:
    """Send the signals and answer in order."""
    sent = [_sent(item) for item in request.items]
    answers = await in_time(signals.send(*one) for one in sent)
    return SignalResponse(results=map(_result, answers))


def _sent(item: SignalItem) -> tuple[str, SignalState, UUID | None]:
    if item.WhichOneof("target") == "key":
        return item.org, signal_state(item.signal, key=item.key), None
    return item.org, signal_state(item.signal), parse_uuid(item.run_id, "items.run_id")


def _result(answer: Kept | PerdureError | None) -> SignalResult:
    if isinstance(answer, Kept):
        run_id = "" if answer.run_id is None else str(answer.run_id)
        return SignalResult(is_new=answer.new, run_id=run_id)
    error = answer or Unavailable("the run is busy", reason=Reason.RETRY)
    return SignalResult(error=error_message(error))
