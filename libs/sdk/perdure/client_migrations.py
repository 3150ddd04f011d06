"""Moves unfinished runs from one version of their workflow to another."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator

from perdure_contracts.v1 import migration_pb2, workflow_service_pb2, workflow_service_pb2_grpc

from perdure.client_transport import Transport

EVERY = migration_pb2.MIGRATION_OUTCOME_UNSPECIFIED


class Migrations:
    """A client's calls about migrations. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = workflow_service_pb2_grpc.WorkflowServiceStub(transport.channel)

    async def begin(
        self, request: workflow_service_pb2.MigrateRunsRequest
    ) -> migration_pb2.Migration:
        """Begin to move runs as asked, and return the migration.

        An id that the request lacks is made here, so that a lost answer begins no second one.
        """
        asked = _copy(request)
        asked.dry_run = False
        asked.migration_id = request.migration_id or str(uuid.uuid4())
        return (await self._transport.call(self._stub.MigrateRuns, asked)).migration

    async def check(
        self, request: workflow_service_pb2.MigrateRunsRequest
    ) -> AsyncGenerator[migration_pb2.RunMigration, None]:
        """Yield what would become of each run; nothing is changed."""
        asked = _copy(request)
        asked.dry_run = True
        while True:
            page = await self._transport.call(self._stub.MigrateRuns, asked)
            for run in page.runs:
                yield run
            if not page.next_page_token:
                return
            asked.page_token = page.next_page_token

    async def get(self, migration_id: str) -> migration_pb2.Migration:
        """Read how far a migration came."""
        request = workflow_service_pb2.GetMigrationRequest(migration_id=migration_id, page_size=1)
        return (await self._transport.call(self._stub.GetMigration, request)).migration

    async def runs(
        self, migration_id: str, outcome: migration_pb2.MigrationOutcome.ValueType = EVERY
    ) -> AsyncGenerator[migration_pb2.RunMigration, None]:
        """Yield what became of a migration's runs: of all, or of those that came to `outcome`."""
        request = workflow_service_pb2.GetMigrationRequest(
            migration_id=migration_id, outcome=outcome
        )
        while True:
            page = await self._transport.call(self._stub.GetMigration, request)
            for run in page.runs:
                yield run
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def _copy(
    request: workflow_service_pb2.MigrateRunsRequest,
) -> workflow_service_pb2.MigrateRunsRequest:
    copy = workflow_service_pb2.MigrateRunsRequest()
    copy.CopyFrom(request)
    return copy
