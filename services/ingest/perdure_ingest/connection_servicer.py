"""`perdure.v1.ConnectionService`; each method names its caller and delegates to its handler."""

from __future__ import annotations

from perdure_contracts.internal.v1.control_service_pb2 import (
    CONNECTION_COMMAND_DELETE,
    CONNECTION_COMMAND_DISABLE,
    CONNECTION_COMMAND_REPAIR,
)
from perdure_contracts.v1 import connection_service_pb2 as pb
from perdure_contracts.v1.connection_service_pb2_grpc import ConnectionServiceServicer
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.command_connection import command_connection
from perdure_ingest.handlers.get_connection import get_connection, read_connection
from perdure_ingest.handlers.list_connections import list_connections
from perdure_ingest.handlers.probe_connection import probe_connection
from perdure_ingest.handlers.put_connection import put_connection
from perdure_ingest.views.connections import connection_message


class ConnectionServicer(ConnectionServiceServicer):
    """The doors to connections."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PutConnection(
        self, request: pb.PutConnectionRequest, context: Context
    ) -> pb.PutConnectionResponse:
        """Delegate."""
        return await put_connection(self._doors, self._identify(context), request)

    async def GetConnection(
        self, request: pb.GetConnectionRequest, context: Context
    ) -> pb.GetConnectionResponse:
        """Delegate."""
        return await get_connection(self._doors, self._identify(context), request)

    async def ListConnections(
        self, request: pb.ListConnectionsRequest, context: Context
    ) -> pb.ListConnectionsResponse:
        """Delegate."""
        return await list_connections(self._doors, self._identify(context), request)

    async def DeleteConnection(
        self, request: pb.DeleteConnectionRequest, context: Context
    ) -> pb.DeleteConnectionResponse:
        """Delegate."""
        caller = self._identify(context)
        await command_connection(self._doors, caller, request.name, CONNECTION_COMMAND_DELETE)
        return pb.DeleteConnectionResponse()

    async def DisableConnection(
        self, request: pb.DisableConnectionRequest, context: Context
    ) -> pb.DisableConnectionResponse:
        """Delegate."""
        caller = self._identify(context)
        await command_connection(self._doors, caller, request.name, CONNECTION_COMMAND_DISABLE)
        state = await read_connection(self._doors, caller, request.name)
        return pb.DisableConnectionResponse(connection=connection_message(state))

    async def RepairConnection(
        self, request: pb.RepairConnectionRequest, context: Context
    ) -> pb.RepairConnectionResponse:
        """Delegate."""
        caller = self._identify(context)
        await command_connection(self._doors, caller, request.name, CONNECTION_COMMAND_REPAIR)
        state = await read_connection(self._doors, caller, request.name)
        return pb.RepairConnectionResponse(connection=connection_message(state))

    async def ProbeConnection(
        self, request: pb.ProbeConnectionRequest, context: Context
    ) -> pb.ProbeConnectionResponse:
        """Delegate."""
        return await probe_connection(self._doors, self._identify(context), request)
