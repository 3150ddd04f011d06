"""WorkflowService.GetWorkflow."""

from __future__ import annotations

from perdure_contracts.v1.workflow_service_pb2 import GetWorkflowRequest, GetWorkflowResponse
from perdure_runtime.errors import NotFound, Reason
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.workflows import read_workflow

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.workflows import workflow_message


async def get_workflow(
    doors: Doors, caller: Caller, request: GetWorkflowRequest
) -> GetWorkflowResponse:
    """Read a version with its document."""
    fields = Check()
    name = fields.text("name", request.name, longest=limits.MAX_NAME, required=True)
    version = fields.version("version", request.version)
    fields.refuse()
    async with reading(doors.pool, caller.org) as connection:
        row = await read_workflow(connection, caller.org, name, version)
    if row is None:
        raise _not_found(name, version)
    return GetWorkflowResponse(workflow=workflow_message(row))


def _not_found(name: str, version: int) -> NotFound:
    wanted = f"version {version} of workflow {name}" if version else f"workflow {name}"
    return NotFound(
        f"there is no {wanted}",
        reason=Reason.WORKFLOW_NOT_FOUND,
        metadata={"workflow": name, "version": str(version)},
    )
