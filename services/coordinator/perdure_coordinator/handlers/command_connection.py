"""CommandConnection: a connection is repaired, disabled or removed."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Protocol

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    CONNECTION_COMMAND_DELETE,
    CONNECTION_COMMAND_DISABLE,
    CONNECTION_COMMAND_REPAIR,
    CommandConnectionRequest,
    CommandConnectionResponse,
)
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_store.connections import delete_connection, disable_connection, repair_connection
from perdure_store.pool import Connection, acquire


class _Do(Protocol):
    def __call__(
        self, connection: Connection, org: str, name: str, *, actor: str
    ) -> Awaitable[None]: ...


_DO: Mapping[int, _Do] = MappingProxyType(
    {
        CONNECTION_COMMAND_REPAIR: repair_connection,
        CONNECTION_COMMAND_DISABLE: disable_connection,
        CONNECTION_COMMAND_DELETE: delete_connection,
    }
)


async def command_connection(
    spare: asyncpg.Pool, request: CommandConnectionRequest
) -> CommandConnectionResponse:
    """Do what is asked; twice is once."""
    do = _DO.get(request.command)
    if do is None:
        problem = "is no command that this version knows"
        raise InvalidArgument(
            f"command {problem}",
            reason=Reason.FIELD_INVALID,
            violations=[FieldViolation("command", problem)],
        )
    async with acquire(spare) as connection:
        await do(connection, request.org, request.name, actor=request.actor)
    return CommandConnectionResponse()
