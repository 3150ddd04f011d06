"""ConnectionService: what is asked of a connection besides its settings."""

from __future__ import annotations

from perdure_contracts.internal.v1.control_service_pb2 import (
    CommandConnectionRequest,
    ConnectionCommand,
)
from perdure_runtime.gate.identity import Caller

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.get_connection import check_named


async def command_connection(
    doors: Doors, caller: Caller, name: str, command: ConnectionCommand.ValueType
) -> None:
    """Repair, disable or remove a connection. Raises `InvalidArgument` and `NotFound`."""
    check_named(name)
    asked = CommandConnectionRequest(org=caller.org, name=name, command=command, actor=caller.actor)
    await doors.coordinator.command_connection(asked)
