"""RunService.StartRun."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import StartRunItem
from perdure_contracts.v1.run_service_pb2 import StartRunRequest, StartRunResponse
from perdure_runtime.gate.identity import Caller
from perdure_runtime.tracing import current_traceparent

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.signals import checked_signal
from perdure_ingest.start_keys import check_start_key, own_start_key
from perdure_ingest.validation import Check


async def start_run(doors: Doors, caller: Caller, request: StartRunRequest) -> StartRunResponse:
    """Start a run, or find the one that the same request started before."""
    item = check(caller, request)
    if not item.start_key:
        item.start_key = own_start_key()
    result = await doors.coordinator.start_run(item)
    return StartRunResponse(
        run_id=result.run_id, workflow_version=result.workflow_version, created=result.created
    )


def check(caller: Caller, request: StartRunRequest) -> StartRunItem:
    """Return what the coordinator is asked for. Raises InvalidArgument with every violation."""
    fields = Check()
    item = StartRunItem(
        org=caller.org,
        workflow=fields.text("workflow", request.workflow, longest=limits.MAX_NAME, required=True),
        version=fields.version("version", request.version),
        input=fields.payload("input", request.input),
        start_key=check_start_key(fields, "start_key", request.start_key),
        tags=fields.tags("tags", request.tags),
        priority=fields.number(
            "priority", request.priority, least=limits.MIN_PRIORITY, most=limits.MAX_PRIORITY
        ),
        traceparent=current_traceparent(),
        signal=checked_signal(fields, request.signal) if request.HasField("signal") else None,
    )
    _put_off(fields, request, item)
    fields.text("request_id", request.request_id, longest=limits.MAX_REQUEST_ID)
    fields.refuse()
    return item


def _put_off(fields: Check, request: StartRunRequest, item: StartRunItem) -> None:
    """Check when the run is to begin, and pass it on as it was asked."""
    if request.HasField("start_at") and request.HasField("start_after"):
        fields.add("start_after", "is given beside start_at; give one of them")
    if request.HasField("start_at"):
        fields.instant("start_at", request.start_at)
        item.start_at.CopyFrom(request.start_at)
    if request.HasField("start_after"):
        fields.duration("start_after", request.start_after)
        item.start_after.CopyFrom(request.start_after)
