"""Commands that name a run and a reason: pause, resume, terminate, retry, discard."""

from __future__ import annotations

from typing import Protocol

from perdure_contracts.internal.v1.coordinator_service_pb2 import CommandRunItem, RunCommand
from perdure_runtime.gate.identity import Caller

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check


class Request(Protocol):
    """What every such request has."""

    run_id: str
    reason: str


async def command_run(
    doors: Doors, caller: Caller, request: Request, command: RunCommand.ValueType
) -> bool:
    """Do what is asked of a run; return whether that changed it."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    item = CommandRunItem(
        org=caller.org, run_id=str(run_id), command=command, reason=reason, actor=caller.actor
    )
    return (await doors.coordinator.command_run(item)).changed
