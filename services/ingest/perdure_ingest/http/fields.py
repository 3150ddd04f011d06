"""How the fields of public messages stand in JSON, as their protos say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from perdure_contracts.v1.options_pb2 import (
    BYTES_FORM_UNSPECIFIED,
    BytesForm,
    bytes_form,
)

_WELL_KNOWN = "google.protobuf."


@cache
def form_of(field: FieldDescriptor) -> BytesForm.ValueType:
    """Return how a field's bytes stand in JSON; unspecified for fields of another type."""
    if field.type != FieldDescriptor.TYPE_BYTES:
        return BYTES_FORM_UNSPECIFIED
    form: BytesForm.ValueType = field.GetOptions().Extensions[bytes_form]
    return form


@cache
def by_json_name(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return a message's fields by each name that JSON may call them: their own, and camelCase."""
    names = {field.json_name: field for field in message.fields}
    return MappingProxyType(names | {field.name: field for field in message.fields})


def is_message(field: FieldDescriptor) -> bool:
    """Tell whether a field holds objects that are read member by member.

    Not so for maps, which hold no payloads, nor for timestamps and such, which have forms of
    their own in JSON.
    """
    kind = field.message_type
    if kind is None or kind.GetOptions().map_entry:
        return False
    return not kind.full_name.startswith(_WELL_KNOWN)


@cache
def holds_payloads(message: Descriptor) -> bool:
    """Tell whether bytes that are JSON or text are somewhere in a message of this type."""
    return _holds_payloads(message, frozenset())


def _holds_payloads(message: Descriptor, above: frozenset[str]) -> bool:
    for field in message.fields:
        if form_of(field) != BYTES_FORM_UNSPECIFIED:
            return True
        inner = field.message_type
        if inner is None or not is_message(field) or inner.full_name in above:
            continue
        if _holds_payloads(inner, above | {message.full_name}):
            return True
    return False
