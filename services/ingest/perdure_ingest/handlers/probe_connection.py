"""ConnectionService.ProbeConnection: a connection is tried by a run like any other."""

from __future__ import annotations

import json

from perdure_contracts.internal.v1.control_service_pb2 import PublishWorkflowRequest
from perdure_contracts.internal.v1.coordinator_service_pb2 import StartRunItem
from perdure_contracts.v1.connection_service_pb2 import (
    ProbeConnectionRequest,
    ProbeConnectionResponse,
)
from perdure_runtime.gate.identity import Caller
from perdure_runtime.tracing import current_traceparent

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.get_connection import read_connection
from perdure_ingest.start_keys import own_start_key
from perdure_ingest.validation import Check

WORKFLOW = "connection-probe"
"""The workflow of an org that tries its connections, published with the first probe."""

_DOCUMENT = json.dumps(
    {
        "name": WORKFLOW,
        "nodes": {
            "ask": {
                "http": {"method": "GET", "url": "${input.url}"},
                "connection": "${input.connection}",
                "retry": {"max": 0},
                "timeout": "30s",
            }
        },
    }
).encode()


async def probe_connection(
    doors: Doors, caller: Caller, request: ProbeConnectionRequest
) -> ProbeConnectionResponse:
    """Start the run that tries a connection."""
    state = await read_connection(doors, caller, request.name)
    fields = Check()
    if not state.probe_path:
        fields.add("name", "is a connection without a probe_path; set one first")
    fields.refuse()
    published = await doors.coordinator.publish_workflow(
        PublishWorkflowRequest(org=caller.org, document=_DOCUMENT, asked_by=caller.actor)
    )
    url = f"{state.base_url.rstrip('/')}{state.probe_path}"
    item = StartRunItem(
        org=caller.org,
        workflow=WORKFLOW,
        version=published.version,
        input=json.dumps({"connection": state.name, "url": url}).encode(),
        start_key=own_start_key(),
        tags={"connection": state.name},
        traceparent=current_traceparent(),
    )
    started = await doors.coordinator.start_run(item)
    return ProbeConnectionResponse(run_id=started.run_id)
