"""WorkflowService.PublishWorkflow."""

from __future__ import annotations

from perdure_contracts.internal.v1 import control_service_pb2
from perdure_contracts.v1.workflow_pb2 import Workflow
from perdure_contracts.v1.workflow_service_pb2 import (
    PublishWorkflowRequest,
    PublishWorkflowResponse,
)
from perdure_runtime.gate.identity import Caller

from perdure_ingest.definitions import read_definition
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.workflows import problem_messages


async def publish_workflow(
    doors: Doors, caller: Caller, request: PublishWorkflowRequest
) -> PublishWorkflowResponse:
    """Check a document and have it stored as the next version of its name."""
    fields = Check()
    document = fields.document("document", request.document)
    fields.refuse()
    definition = await read_definition(doors.pool, document)
    stored = await doors.coordinator.publish_workflow(
        control_service_pb2.PublishWorkflowRequest(
            org=caller.org, document=document, asked_by=caller.actor
        )
    )
    workflow = Workflow(name=stored.name, version=stored.version, digest=stored.digest)
    workflow.published_at.FromMicroseconds(stored.published_at_us)
    return PublishWorkflowResponse(
        workflow=workflow,
        created=stored.created,
        warnings=problem_messages(definition.warnings),
    )
