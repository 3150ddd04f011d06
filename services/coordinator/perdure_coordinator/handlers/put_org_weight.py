"""PutOrgWeight: how many rows an org may send in each of its turns."""

from __future__ import annotations

import asyncpg
from perdure_contracts.internal.v1.control_service_pb2 import (
    PutOrgWeightRequest,
    PutOrgWeightResponse,
)
from perdure_store.lanes import Asked, OrgWeight, put_weight
from perdure_store.pool import acquire


async def put_org_weight(spare: asyncpg.Pool, request: PutOrgWeightRequest) -> PutOrgWeightResponse:
    """Store it; relays read it with each pick."""
    wanted = OrgWeight(request.org, request.weight)
    async with acquire(spare) as connection:
        await put_weight(connection, wanted, Asked(request.actor, request.reason))
    return PutOrgWeightResponse()
