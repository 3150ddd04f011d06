"""EffectService.GetEffect."""

from __future__ import annotations

from uuid import UUID

from perdure_contracts.v1.effect_service_pb2 import GetEffectRequest, GetEffectResponse
from perdure_runtime.errors import NotFound, Reason
from perdure_runtime.gate.identity import Caller
from perdure_store.org_reads import reading
from perdure_store.reads.effects import read_decisions, read_effect, run_exists

from perdure_ingest import limits
from perdure_ingest.doors import Doors, refuse_oversized, run_not_found
from perdure_ingest.validation import Check
from perdure_ingest.views.effects import effect_decision, effect_entry


async def get_effect(doors: Doors, caller: Caller, request: GetEffectRequest) -> GetEffectResponse:
    """Read one effect with what it came to and what people decided."""
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    key = fields.text("key", request.key, longest=limits.MAX_EFFECT_KEY, required=True)
    fields.refuse()
    async with reading(doors.pool, caller.org) as connection:
        row = await read_effect(connection, caller.org, run_id, key)
        if row is None and not await run_exists(connection, caller.org, run_id):
            raise run_not_found(run_id)
        if row is None:
            raise _effect_not_found(run_id, key)
        decisions = await read_decisions(connection, caller.org, run_id, key)
    answer = GetEffectResponse(
        effect=effect_entry(row), result=row.result, decisions=map(effect_decision, decisions)
    )
    refuse_oversized(answer)
    return answer


def _effect_not_found(run_id: UUID, key: str) -> NotFound:
    return NotFound(
        f"run {run_id} has no effect {key}",
        reason=Reason.EFFECT_NOT_FOUND,
        metadata={"run_id": str(run_id), "key": key},
    )
