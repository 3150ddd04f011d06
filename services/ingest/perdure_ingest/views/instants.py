"""Instants of the database as protobuf timestamps."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp


def timestamp(instant: datetime | None) -> Timestamp | None:
    """Return the instant as a message; None stays None."""
    if instant is None:
        return None
    message = Timestamp()
    message.FromDatetime(instant)
    return message
