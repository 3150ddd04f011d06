"""Requests that nobody means well by, made from the descriptors of their methods."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

LONG = 1_100_000
"""Characters of a text that is longer than any may be, and still fits into a message."""

MANY = 3000
"""Entries of a list, or of a map, that is too long."""

DEEP = 300
"""How deep a payload, or a message, is nested."""

NUL = "a\0b"
"""A text that PostgreSQL takes nowhere."""

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (2**63 - 1, -(2**63)),
    FieldDescriptor.CPPTYPE_UINT32: (2**32 - 1,),
    FieldDescriptor.CPPTYPE_UINT64: (2**64 - 1,),
}
_REALS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


@dataclass(frozen=True, slots=True)
class Attack:
    """A request whose `field`, of the top level, holds something that no caller would send."""

    field: str
    how: str
    request: Message


def attacks(method_input: Descriptor, *, filled: bool) -> Iterator[Attack]:
    """Yield requests with one hostile field each; the others are empty, or `filled` with names."""
    for field in method_input.fields:
        for how, value in _values(field):
            request = GetMessageClass(method_input)()
            if filled:
                fill(request, but=field)
            _put(request, field, value)
            yield Attack(field.name, how, request)


def spoil(method_input: Descriptor) -> tuple[Message, set[str]]:
    """Return a request whose every text is one that cannot be, and the fields that hold them."""
    request = GetMessageClass(method_input)()
    spoilt = set()
    for field in method_input.fields:
        is_text = field.type == field.TYPE_STRING and not field.is_repeated
        if is_text and field.containing_oneof is None and field.name != "page_token":
            setattr(request, field.name, NUL)
            spoilt.add(field.name)
    return request, spoilt


def fill(request: Message, but: FieldDescriptor) -> None:
    """Set the texts of a request to ids and names of what is not there."""
    for field in request.DESCRIPTOR.fields:
        rivals = field.containing_oneof
        in_the_way = rivals is not None and rivals is but.containing_oneof
        if field is but or field.is_repeated or in_the_way or field.name == "page_token":
            continue
        if field.type == field.TYPE_STRING:
            setattr(request, field.name, _name(field.name))


def malformed(method_input: Descriptor) -> Iterator[tuple[str, bytes]]:
    """Yield bytes that are no message of this type, or hold text that is not UTF-8."""
    yield "noise", b"\xff" * 16
    yield "nested too deep", b"\x0b" * DEEP + b"\x0c" * DEEP
    for field in method_input.fields:
        tag = _varint(field.number << 3 | 2)
        if field.type == field.TYPE_STRING:
            yield f"{field.name} is not UTF-8", tag + b"\x04\xc3\x28\xed\xa0"
            yield f"{field.name} is cut", tag + b"\x7fabc"
        elif field.type == field.TYPE_MESSAGE:
            yield f"{field.name} is noise", tag + b"\x03\xff\xff\xff"


def _values(field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
    if _is_map(field):
        yield "NUL in a key", {NUL: "v"}
        yield "NUL in a value", {"k": NUL}
        yield "too many", {str(number): "v" for number in range(MANY)}
        yield "too long", {"k": "v" * LONG}
        return
    for how, value in _single_values(field):
        yield how, [value] if field.is_repeated else value
    if field.is_repeated and field.type == field.TYPE_STRING:
        yield "too many", ["x"] * MANY


def _single_values(field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
    if field.type == field.TYPE_STRING:
        yield "NUL", NUL
        yield "too long", "x" * LONG
    elif field.type == field.TYPE_BYTES:
        yield "not UTF-8", b'"\xc3\x28"'
        yield "nested too deep", b"[" * DEEP + b"]" * DEEP
        yield "too long", b'"' + b"x" * LONG + b'"'
    elif field.type == field.TYPE_ENUM:
        yield "unknown", 99
    elif field.cpp_type in _INTEGERS:
        for number in _INTEGERS[field.cpp_type]:
            yield f"{number}", number
    elif field.cpp_type in _REALS:
        for real in (float("nan"), float("inf"), -1e300):
            yield f"{real}", real
    elif field.message_type is not None:
        yield from _inner_values(field.message_type)


def _inner_values(kind: Descriptor) -> Iterator[tuple[str, Message]]:
    for inner in kind.fields:
        for how, value in _values(inner):
            message = GetMessageClass(kind)()
            _put(message, inner, value)
            yield f"{inner.name} {how}", message


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if _is_map(field):
        getattr(message, field.name).update(value)
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.type == field.TYPE_MESSAGE:
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _name(field: str) -> str:
    return str(uuid.uuid4()) if field.endswith("_id") else "nobody"


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])
