"""WorkflowService.ValidateWorkflow."""

from __future__ import annotations

from perdure_contracts.v1.workflow_service_pb2 import (
    ValidateWorkflowRequest,
    ValidateWorkflowResponse,
)
from perdure_machine.definition import DefinitionInvalid
from perdure_runtime.gate.identity import Caller

from perdure_ingest.definitions import read_definition
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.workflows import problem_messages


async def validate_workflow(
    doors: Doors, caller: Caller, request: ValidateWorkflowRequest
) -> ValidateWorkflowResponse:
    """Check a document as publishing would; its problems are the answer."""
    fields = Check()
    document = fields.document("document", request.document)
    fields.refuse()
    try:
        definition = await read_definition(doors.pool, document)
    except DefinitionInvalid as refusal:
        return ValidateWorkflowResponse(problems=problem_messages(refusal.problems))
    return ValidateWorkflowResponse(warnings=problem_messages(definition.warnings))
