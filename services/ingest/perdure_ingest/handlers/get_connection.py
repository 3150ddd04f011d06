"""ConnectionService.GetConnection."""

from __future__ import annotations

from perdure_contracts.v1.connection_service_pb2 import GetConnectionRequest, GetConnectionResponse
from perdure_runtime.gate.identity import Caller
from perdure_store.connections import ConnectionState, list_connections, no_connection
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.connections import connection_message


async def get_connection(
    doors: Doors, caller: Caller, request: GetConnectionRequest
) -> GetConnectionResponse:
    """Show a connection."""
    state = await read_connection(doors, caller, request.name)
    return GetConnectionResponse(connection=connection_message(state))


def check_named(name: str) -> None:
    """Refuse a name that no connection can have. Raises `InvalidArgument`."""
    fields = Check()
    fields.text("name", name, longest=limits.MAX_NAME, required=True)
    fields.refuse()


async def read_connection(doors: Doors, caller: Caller, name: str) -> ConnectionState:
    """Read a connection of the caller's org. Raises `InvalidArgument` and `NotFound`."""
    check_named(name)
    async with reading(doors.pool, caller.org) as connection:
        found = await list_connections(connection, caller.org, name=name, limit=1)
    if not found:
        raise no_connection(name)
    return found[0]
