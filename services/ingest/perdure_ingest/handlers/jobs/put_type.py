"""JobService.PutJobType: what a type says becomes a version of a workflow of one node."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perdure_contracts.internal.v1.control_service_pb2 import PublishWorkflowRequest
from perdure_contracts.v1 import job_pb2, workflow_pb2
from perdure_contracts.v1.job_service_pb2 import PutJobTypeRequest, PutJobTypeResponse
from perdure_machine.definition import Definition, DefinitionInvalid
from perdure_machine.job_types import NAME, JobRetry, JobType, field_of, to_document
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.definitions import read_any_definition
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.refusals import of_type
from perdure_ingest.validation import Check
from perdure_ingest.views.jobs import spec_message


async def put_job_type(
    doors: Doors, caller: Caller, request: PutJobTypeRequest
) -> PutJobTypeResponse:
    """Check what a type says, and have it stored as its next version."""
    document = to_document(check(request))
    try:
        definition = await read_any_definition(doors.pool, document)
    except DefinitionInvalid as refusal:
        raise of_type(refusal) from refusal
    stored = await doors.coordinator.publish_workflow(
        PublishWorkflowRequest(org=caller.org, document=document, asked_by=caller.actor)
    )
    job_type = job_pb2.JobType(
        name=request.name, version=stored.version, spec=spec_message(document)
    )
    job_type.created_at.FromMicroseconds(stored.published_at_us)
    return PutJobTypeResponse(
        job_type=job_type, created=stored.created, warnings=_warnings(definition)
    )


def check(request: PutJobTypeRequest) -> JobType:
    """Return what is asked for; what only a definition's reader knows is left to it."""
    fields, spec = Check(), request.spec
    if not re.fullmatch(NAME, request.name):
        fields.add("name", "must be a small letter, then at most 127 of a-z, 0-9 and . _ -")
    work = spec.WhichOneof("work")
    if not (spec.handler or spec.http):
        fields.add(f"spec.{work or 'handler'}", "is required: a handler, or an http call")
    job_type = JobType(
        name=request.name,
        handler=fields.text("spec.handler", spec.handler, longest=limits.MAX_TEMPLATE),
        http=fields.payload("spec.http", spec.http),
        lane=fields.text("spec.lane", spec.lane, longest=limits.MAX_NAME),
        connection=fields.text("spec.connection", spec.connection, longest=limits.MAX_TEMPLATE),
        payload_schema=fields.payload("spec.payload_schema", spec.payload_schema),
        retry=_rules(fields, spec.retry),
        timeout=fields.duration("spec.timeout", spec.timeout if spec.HasField("timeout") else None),
        subject=fields.text("spec.subject", spec.subject, longest=limits.MAX_TEMPLATE),
        purpose=fields.text("spec.purpose", spec.purpose, longest=limits.MAX_NAME),
    )
    fields.refuse()
    return job_type


def _rules(fields: Check, rules: Sequence[job_pb2.JobRetry]) -> tuple[JobRetry, ...]:
    if len(rules) > limits.MAX_RETRY_RULES:
        fields.add("spec.retry", f"has more than {limits.MAX_RETRY_RULES} rules")
    return tuple(_rule(fields, f"spec.retry[{place}]", rule) for place, rule in enumerate(rules))


def _rule(fields: Check, place: str, rule: job_pb2.JobRetry) -> JobRetry:
    for index, code in enumerate(rule.on):
        fields.text(f"{place}.on[{index}]", code, longest=limits.MAX_CODE, required=True)
    if not math.isfinite(rule.factor):
        fields.add(f"{place}.factor", "is no number")
    return JobRetry(
        on=tuple(rule.on),
        max=rule.max if rule.HasField("max") else None,
        base=fields.duration(f"{place}.base", rule.base if rule.HasField("base") else None),
        factor=rule.factor if rule.HasField("factor") and math.isfinite(rule.factor) else None,
        cap=fields.duration(f"{place}.cap", rule.cap if rule.HasField("cap") else None),
    )


def _warnings(definition: Definition) -> list[workflow_pb2.DefinitionProblem]:
    return [
        workflow_pb2.DefinitionProblem(
            path=f"spec.{field_of(one.path)}", reason=one.reason, hint=one.hint
        )
        for one in definition.warnings
    ]
