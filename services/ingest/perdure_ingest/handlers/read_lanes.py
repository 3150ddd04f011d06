"""LaneService.GetLane, ListLanes and ListOrgWeights."""

from __future__ import annotations

from perdure_contracts.v1.lane_service_pb2 import (
    GetLaneRequest,
    GetLaneResponse,
    ListLanesResponse,
    ListOrgWeightsResponse,
    OrgWeight,
)
from perdure_store.lanes import lane_not_found, load_lanes, load_weights
from perdure_store.pool import acquire

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.lanes import lane_message


async def get_lane(doors: Doors, request: GetLaneRequest) -> GetLaneResponse:
    """Read one lane."""
    fields = Check()
    fields.text("lane", request.lane, longest=limits.MAX_NAME, required=True)
    fields.refuse()
    async with acquire(doors.pool) as connection:
        lanes = await load_lanes(connection)
    if request.lane not in lanes:
        raise lane_not_found(request.lane)
    return GetLaneResponse(lane=lane_message(lanes[request.lane]))


async def list_lanes(doors: Doors) -> ListLanesResponse:
    """Read all lanes, which are few."""
    async with acquire(doors.pool) as connection:
        lanes = await load_lanes(connection)
    return ListLanesResponse(lanes=map(lane_message, lanes.values()))


async def list_org_weights(doors: Doors) -> ListOrgWeightsResponse:
    """Read the weight of every org."""
    async with acquire(doors.pool) as connection:
        weights = await load_weights(connection)
    return ListOrgWeightsResponse(
        weights=[OrgWeight(org=one.org, weight=one.weight) for one in weights]
    )
