"""Lanes as messages."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1.lane_service_pb2 import Lane as LaneMessage
from perdure_machine.lanes import Lane


def lane_message(lane: Lane) -> LaneMessage:
    """Show a lane's settings."""
    return LaneMessage(
        lane=lane.name,
        shards=lane.shards,
        stream_ceiling=lane.stream_ceiling,
        hand_out=_duration(lane.hand_out),
        lease=_duration(lane.lease),
        poison_limit=lane.poison_limit,
        retry_max=lane.retry.max,
        retry_base=_duration(lane.retry.base),
        retry_factor=lane.retry.factor,
        retry_cap=_duration(lane.retry.cap),
    )


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromTimedelta(timedelta(milliseconds=round(seconds * 1000)))
    return message
