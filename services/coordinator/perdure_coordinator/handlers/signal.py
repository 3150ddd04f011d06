"""Signal: to runs, by correlation keys, or to callbacks."""

from __future__ import annotations

from collections.abc import Coroutine

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    SignalItem,
    SignalRequest,
    SignalResponse,
    SignalResult,
)
from perdure_runtime.errors import PerdureError, Reason, Unavailable
from perdure_store.signals import Kept

from perdure_coordinator.answers import in_time
from perdure_coordinator.messages import error_message, parse_uuid, signal_state
from perdure_coordinator.signalling import Signals


async def signal(signals: Signals, request: SignalRequest) -> SignalResponse:
    """Send the signals and answer in order."""
    sent = [_sent(signals, item) for item in request.items]
    answers = await in_time(sent)
    return SignalResponse(results=map(_result, answers))


def _sent(signals: Signals, item: SignalItem) -> Coroutine[None, None, Kept]:
    match item.WhichOneof("target"):
        case "key":
            return signals.send(item.org, signal_state(item.signal, key=item.key), None)
        case "callback":
            return signals.answer(item.org, item.callback, signal_state(item.signal))
        case _:
            run_id = parse_uuid(item.run_id, "items.run_id")
            return signals.send(item.org, signal_state(item.signal), run_id)


def _result(answer: Kept | PerdureError | None) -> SignalResult:
    if isinstance(answer, Kept):
        run_id = "" if answer.run_id is None else str(answer.run_id)
        return SignalResult(is_new=answer.new, run_id=run_id)
    error = answer or Unavailable("the run is busy", reason=Reason.RUN_BUSY)
    return SignalResult(error=error_message(error))
