"""RunService.CancelRun."""

from __future__ import annotations

from perdure_contracts.internal.v1.coordinator_service_pb2 import CancelRunItem
from perdure_contracts.v1.run_pb2 import RUN_STATUS_CANCELLED
from perdure_contracts.v1.run_service_pb2 import CancelRunRequest, CancelRunResponse
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check


async def cancel_run(doors: Doors, caller: Caller, request: CancelRunRequest) -> CancelRunResponse:
    """Close a run; one that is cancelled already stays as it is."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    item = CancelRunItem(org=caller.org, run_id=str(run_id), reason=reason, actor=caller.actor)
    result = await doors.coordinator.cancel_run(item)
    return CancelRunResponse(status=RUN_STATUS_CANCELLED, changed=result.changed)
