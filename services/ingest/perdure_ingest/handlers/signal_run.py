"""RunService.SignalRun."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import SignalItem
from perdure_contracts.v1.run_service_pb2 import SignalRunRequest, SignalRunResponse
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.signals import checked_signal
from perdure_ingest.validation import Check


async def signal_run(doors: Doors, caller: Caller, request: SignalRunRequest) -> SignalRunResponse:
    """Send a signal to a run, by a key or to a callback; the same id sends it once."""
    result = await doors.coordinator.signal(check(caller, request))
    return SignalRunResponse(is_new=result.is_new, run_id=result.run_id)


def check(caller: Caller, request: SignalRunRequest) -> SignalItem:
    """Return what the coordinator is asked for. Raises InvalidArgument with every violation."""
    fields = Check()
    target = request.WhichOneof("target")
    signal = checked_signal(fields, request.signal, named=target != "callback")
    item = SignalItem(org=caller.org, signal=signal)
    match target:
        case "callback":
            item.callback = fields.text(
                "callback", request.callback, longest=limits.MAX_CALLBACK, required=True
            )
        case "key":
            item.key = fields.text("key", request.key, longest=limits.MAX_SIGNAL_KEY, required=True)
        case "run_id":
            item.run_id = str(fields.run_id("run_id", request.run_id))
        case _:
            fields.add("target", "is required: `run_id`, `key` or `callback`")
    fields.text("request_id", request.request_id, longest=limits.MAX_REQUEST_ID)
    fields.refuse()
    return item
