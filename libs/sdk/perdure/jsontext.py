"""Messages of the API as JSON text, payloads spliced in as the bytes they are (R12, F103).

No number of a payload passes through a float, no key is reordered, no escape rewritten. Names are
those of the contract, statuses its words in lower case, instants RFC 3339; what is absent is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

PAYLOAD_FIELDS = frozenset(
    {"input", "output", "details", "result", "payload", "payload_schema", "http"}
)
"""Fields of bytes that hold JSON."""

TEXT_FIELDS = frozenset({"document"})
"""Fields of bytes that hold UTF-8 text; the other fields of bytes are shown in hexadecimal."""

_NULL = b"null"

Field = Any
"""A field's descriptor; the implementations of protobuf share no type for it."""


def to_json(message: Message) -> bytes:
    """Return a message as one JSON object."""
    if isinstance(message, Timestamp):
        return _text(message.ToDatetime(UTC).isoformat().replace("+00:00", "Z"))
    members = (
        _text(field.name) + b": " + _field(message, field) for field in message.DESCRIPTOR.fields
    )
    return b"{" + b", ".join(members) + b"}"


def _field(message: Message, field: Field) -> bytes:
    value = getattr(message, field.name)
    if _is_map(field):
        return _text(dict(value))
    if field.is_repeated:
        return b"[" + b", ".join(_value(field, each) for each in value) + b"]"
    if field.message_type is not None and not message.HasField(field.name):
        return _NULL
    return _value(field, value)


def _is_map(field: Field) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _value(field: Field, value: Any) -> bytes:
    if isinstance(value, Message):
        return to_json(value)
    if field.enum_type is not None:
        return _text(status_word(field, value))
    if isinstance(value, bytes):
        return _bytes(field.name, value)
    return _text(value)


def status_word(field: Field, number: int) -> str | None:
    """Return the word of an enum value, `timed_out` of RUN_STATUS_TIMED_OUT; None if not said."""
    values = field.enum_type.values_by_number
    prefix = values[0].name.removesuffix("UNSPECIFIED")
    if number == 0:
        return None
    if number not in values:
        return str(number)
    name: str = values[number].name
    return name.removeprefix(prefix).lower()


def _bytes(name: str, value: bytes) -> bytes:
    if name in PAYLOAD_FIELDS:
        return value or _NULL
    return _text(value.decode(errors="replace") if name in TEXT_FIELDS else value.hex())


def _text(value: str | float | bool | Mapping[str, str] | None) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
