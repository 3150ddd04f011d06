"""RunService.GetRun."""

from __future__ import annotations

from perdure_contracts.v1.run_service_pb2 import GetRunRequest, GetRunResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.reads.runs import payload_bytes, read_run

from perdure_ingest import limits
from perdure_ingest.doors import Doors, refuse_oversized, run_not_found, too_large
from perdure_ingest.validation import Check
from perdure_ingest.views.runs import whole_run


async def get_run(doors: Doors, caller: Caller, request: GetRunRequest) -> GetRunResponse:
    """Read a run with the steps of one scope, as of one moment."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    scope = fields.text("scope", request.scope, longest=limits.MAX_SCOPE)
    fields.refuse()
    size = await payload_bytes(doors.pool, caller.org, run_id, scope)
    with_payloads = size <= limits.MAX_RUN_PAYLOADS
    snapshot = await read_run(
        doors.pool, caller.org, run_id, with_payloads=with_payloads, scope=scope
    )
    if snapshot is None:
        raise run_not_found(run_id)
    if size > limits.MAX_RUN_PAYLOADS:
        raise too_large("the run's payloads", size, limits.MAX_RUN_PAYLOADS)
    response = GetRunResponse(run=whole_run(snapshot, with_payloads=True))
    refuse_oversized(response)
    return response
