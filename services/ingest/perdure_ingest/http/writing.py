"""Messages as JSON: protobuf's own form, with payloads put in as the bytes that they are (R12).

A payload is JSON text already. It is not read on its way out: integers beyond 64 bits, the order
of members, escapes and spacing reach the reader as they were given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from perdure_contracts.v1.options_pb2 import (
    BYTES_FORM_JSON,
    BYTES_FORM_TEXT,
    BYTES_FORM_UNSPECIFIED,
)

from perdure_ingest.http.fields import by_json_name, form_of, holds_payloads, is_message

NULL = b"null"


def to_json(message: Message) -> bytes:
    """Return a message as a JSON document.

    Members have the names of the proto. Fields without a value are written, except messages,
    payloads and such as are `optional`.
    """
    tree = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return b"".join(_object(tree, message))


def _object(tree: dict[str, Any], message: Message) -> Iterator[bytes]:
    if not holds_payloads(message.DESCRIPTOR):
        yield plain_json(tree)
        return
    fields = by_json_name(message.DESCRIPTOR)
    opening = b"{"
    for name, value in tree.items():
        parts = b"".join(_member(value, message, fields[name]))
        if parts:
            yield opening + plain_json(name) + b":" + parts
            opening = b","
    yield b"{}" if opening == b"{" else b"}"


def _member(value: Any, message: Message, field: FieldDescriptor) -> Iterator[bytes]:
    """Yield a member's value; nothing where it is left out."""
    inner = getattr(message, field.name)
    if form_of(field) != BYTES_FORM_UNSPECIFIED:
        yield _payload(inner, field)
    elif not is_message(field):
        yield plain_json(value)
    elif field.is_repeated:
        items = (b"".join(_object(*pair)) for pair in zip(value, inner, strict=True))
        yield b"[" + b",".join(items) + b"]"
    else:
        yield from _object(value, inner)


def _payload(data: bytes, field: FieldDescriptor) -> bytes:
    if data and form_of(field) == BYTES_FORM_TEXT:
        return plain_json(data.decode())
    if not data and field.has_presence and form_of(field) == BYTES_FORM_JSON:
        return NULL
    return data


def plain_json(value: Any) -> bytes:
    """Return a value that holds no payload as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
