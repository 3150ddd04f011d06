"""SystemService.Diagnose."""

from __future__ import annotations

from perdure_contracts.v1.system_service_pb2 import Check as CheckMessage
from perdure_contracts.v1.system_service_pb2 import DiagnoseRequest, DiagnoseResponse
from perdure_runtime.errors import PerdureError
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doctor.checks import CHECKS, Run, could_not_run
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check


async def diagnose(doors: Doors, caller: Caller, request: DiagnoseRequest) -> DiagnoseResponse:
    """Run every check; one that fails says so and does not hide the others."""
    fields = Check()
    limit = fields.number("max_findings", request.max_findings, least=0, most=limits.MAX_FINDINGS)
    fields.refuse()
    limit = limit or limits.DEFAULT_FINDINGS
    checks = [await _run(doors, caller, name, run, limit) for name, run in CHECKS]
    return DiagnoseResponse(checks=checks)


async def _run(doors: Doors, caller: Caller, name: str, run: Run, limit: int) -> CheckMessage:
    try:
        async with reading(doors.pool, caller.org) as connection:
            return await run(connection, caller.org, limit)
    except PerdureError as error:
        return could_not_run(name, error.message)
