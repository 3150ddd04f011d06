"""Lanes between the wire and the store."""

from __future__ import annotations

from perdure_contracts.internal.v1.control_service_pb2 import Lane as LaneMessage
from perdure_contracts.internal.v1.control_service_pb2 import PutLaneRequest
from perdure_machine.lanes import Lane
from perdure_store.lanes import LaneChange


def lane_message(lane: Lane) -> LaneMessage:
    """Return a lane as it travels."""
    return LaneMessage(
        lane=lane.name,
        shards=lane.shards,
        stream_ceiling=lane.stream_ceiling,
        lease_ms=_ms(lane.lease),
        hand_out_ms=_ms(lane.hand_out),
        poison_limit=lane.poison_limit,
        retry_max=lane.retry.max,
        retry_base_ms=_ms(lane.retry.base),
        retry_factor=lane.retry.factor,
        retry_cap_ms=_ms(lane.retry.cap),
    )


def lane_change(request: PutLaneRequest) -> LaneChange:
    """Return what is to become of a lane: the fields that the request has."""

    given = {field.name: value for field, value in request.ListFields()}

    def seconds(field: str) -> float | None:
        return given[field] / 1000 if field in given else None

    return LaneChange(
        name=request.lane,
        shards=given.get("shards"),
        stream_ceiling=given.get("stream_ceiling"),
        hand_out=seconds("hand_out_ms"),
        lease=seconds("lease_ms"),
        poison_limit=given.get("poison_limit"),
        retry_max=given.get("retry_max"),
        retry_base=seconds("retry_base_ms"),
        retry_factor=given.get("retry_factor"),
        retry_cap=seconds("retry_cap_ms"),
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
