"""Instants and lengths of time as messages; None stays None."""

from __future__ import annotations

from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def timestamp(instant: datetime | None) -> Timestamp | None:
    """Return an instant as a message; one without a zone is taken for UTC."""
    if instant is None:
        return None
    message = Timestamp()
    message.FromDatetime(instant)
    return message


def duration(length: timedelta | float | None) -> Duration | None:
    """Return a length of time as a message; a number is seconds."""
    if length is None:
        return None
    message = Duration()
    message.FromTimedelta(length if isinstance(length, timedelta) else timedelta(seconds=length))
    return message
