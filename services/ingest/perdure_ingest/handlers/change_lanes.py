"""LaneService.PutLane, DeleteLane and PutOrgWeight; the coordinator says what a lane may be."""

from __future__ import annotations

from perdure_contracts.internal.v1 import control_service_pb2 as control
from perdure_contracts.v1.lane_service_pb2 import (
    DeleteLaneRequest,
    DeleteLaneResponse,
    PutLaneRequest,
    PutLaneResponse,
    PutOrgWeightRequest,
    PutOrgWeightResponse,
)
from perdure_runtime.gate.identity import Caller
from perdure_store.lanes import lane_not_found, load_lanes
from perdure_store.pool import acquire

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.validation import Check
from perdure_ingest.views.lanes import lane_message

_NUMBERS = frozenset({"shards", "stream_ceiling", "poison_limit", "retry_max", "retry_factor"})
_DURATIONS = frozenset({"hand_out", "lease", "retry_base", "retry_cap"})


async def put_lane(doors: Doors, caller: Caller, request: PutLaneRequest) -> PutLaneResponse:
    """Make or change a lane, and read it as it now is."""
    answer = await doors.coordinator.put_lane(_change(caller, request))
    async with acquire(doors.pool) as connection:
        lane = (await load_lanes(connection)).get(request.lane)
    if lane is None:
        raise lane_not_found(request.lane)
    return PutLaneResponse(lane=lane_message(lane), created=answer.created)


async def delete_lane(
    doors: Doors, caller: Caller, request: DeleteLaneRequest
) -> DeleteLaneResponse:
    """Remove a lane."""
    fields = Check()
    lane = fields.text("lane", request.lane, longest=limits.MAX_NAME, required=True)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    await doors.coordinator.delete_lane(
        control.DeleteLaneRequest(lane=lane, actor=caller.actor, reason=reason)
    )
    return DeleteLaneResponse()


async def put_org_weight(
    doors: Doors, caller: Caller, request: PutOrgWeightRequest
) -> PutOrgWeightResponse:
    """Set an org's weight."""
    fields = Check()
    org = fields.text("org", request.org, longest=limits.MAX_NAME, required=True)
    weight = fields.number("weight", request.weight, least=1, most=limits.MAX_WEIGHT)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    await doors.coordinator.put_org_weight(
        control.PutOrgWeightRequest(org=org, weight=weight, actor=caller.actor, reason=reason)
    )
    return PutOrgWeightResponse()


def _change(caller: Caller, request: PutLaneRequest) -> control.PutLaneRequest:
    fields = Check()
    change = control.PutLaneRequest(
        lane=fields.text("lane", request.lane, longest=limits.MAX_NAME, required=True),
        actor=caller.actor,
        reason=fields.text("reason", request.reason, longest=limits.MAX_REASON),
    )
    given = {field.name: value for field, value in request.ListFields()}
    for field in _NUMBERS & given.keys():
        setattr(change, field, given[field])
    for field in _DURATIONS & given.keys():
        seconds = fields.duration(field, given[field])
        setattr(change, f"{field}_ms", round((seconds or 0.0) * 1000))
    fields.refuse()
    return change
