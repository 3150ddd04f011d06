"""Values to JSON bytes. Bytes are taken as JSON that stands already and are sent as they are."""

from __future__ import annotations

import json

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""Made once: `json.dumps` makes one for each value that is not written in its default form."""

_NULL = b"null"


def to_payload(value: object) -> bytes:
    """Return `value` as JSON in UTF-8; integers of any size stay exact.

    Raises TypeError for what JSON cannot hold and ValueError for NaN and infinities.
    """
    if isinstance(value, bytes):
        return value
    if value is None:
        return _NULL  # what most handlers return that are there for their effect
    try:
        return _ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8, but it has a JSON escape.
        return json.dumps(value, allow_nan=False).encode()
