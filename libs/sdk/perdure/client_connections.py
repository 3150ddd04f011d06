"""Makes and repairs connections: accounts at outside providers that steps act under."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from perdure_contracts.v1 import connection_service_pb2 as pb
from perdure_contracts.v1 import connection_service_pb2_grpc

from perdure.client_transport import Transport


class Connections:
    """A client's calls about connections. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = connection_service_pb2_grpc.ConnectionServiceStub(transport.channel)

    async def put(self, request: pb.PutConnectionRequest) -> pb.PutConnectionResponse:
        """Make a connection, or replace its settings; without credentials it keeps its own."""
        return await self._transport.call(self._stub.PutConnection, request)

    async def get(self, name: str) -> pb.Connection:
        """Show a connection."""
        request = pb.GetConnectionRequest(name=name)
        return (await self._transport.call(self._stub.GetConnection, request)).connection

    async def list(self) -> AsyncGenerator[pb.Connection, None]:
        """Yield the connections by name."""
        request = pb.ListConnectionsRequest()
        while True:
            page = await self._transport.call(self._stub.ListConnections, request)
            for connection in page.connections:
                yield connection
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def delete(self, name: str) -> None:
        """Remove a connection; steps that need it are parked until there is one of its name."""
        request = pb.DeleteConnectionRequest(name=name)
        await self._transport.call(self._stub.DeleteConnection, request)

    async def disable(self, name: str) -> pb.Connection:
        """Let no step use a connection."""
        request = pb.DisableConnectionRequest(name=name)
        return (await self._transport.call(self._stub.DisableConnection, request)).connection

    async def repair(self, name: str) -> pb.Connection:
        """Say that a connection works again; what is parked on it comes back."""
        request = pb.RepairConnectionRequest(name=name)
        return (await self._transport.call(self._stub.RepairConnection, request)).connection

    async def probe(self, name: str) -> str:
        """Have a connection tried; return the run that does it, which completes if it works."""
        request = pb.ProbeConnectionRequest(name=name)
        return (await self._transport.call(self._stub.ProbeConnection, request)).run_id
