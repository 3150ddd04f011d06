"""Messages of the protos as schemas of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from perdure_contracts.v1.options_pb2 import BYTES_FORM_JSON, BYTES_FORM_TEXT
from perdure_ingest.http.fields import form_of

Schema = dict[str, Any]

_PLAIN: Mapping[int, Schema] = {
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "format": "uint32", "minimum": 0},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": "string", "format": "uint64", "pattern": "^[0-9]+$"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
}
_WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
}
_REQUIRED = "Required"
"""What the comment of a field says that must be given."""


class Schemas:
    """The schemas of the messages and enums that were asked for, each by its name."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self.all: dict[str, Schema] = {}

    def reference(self, kind: Descriptor | EnumDescriptor) -> Schema:
        """Return a reference to a message or enum, which is described once."""
        if kind.name not in self.all:
            self.all[kind.name] = {}
            made = self._enum(kind) if isinstance(kind, EnumDescriptor) else self.object(kind)
            self.all[kind.name] = made
        return {"$ref": f"#/components/schemas/{kind.name}"}

    def object(
        self, message: Descriptor, *, without: Collection[str] = (), is_request: bool = False
    ) -> Schema:
        """Return a message's schema, some of its fields left out.

        A request takes no other fields, and says which it requires.
        """
        fields = [field for field in message.fields if field.name not in without]
        schema: Schema = {"type": "object"} | self.described(message.full_name)
        schema["properties"] = {field.name: self.field(field) for field in fields}
        if is_request:
            schema["additionalProperties"] = False
            if required := [field.name for field in fields if self.is_required(field)]:
                schema["required"] = required
        return schema

    def is_required(self, field: FieldDescriptor) -> bool:
        """Tell whether a field must be given; one of several need not."""
        return not field.has_presence and _REQUIRED in self._comments.get(field.full_name, "")

    def field(self, field: FieldDescriptor) -> Schema:
        """Return the schema of a field with its comment."""
        return self.value(field) | self.described(field.full_name)

    def described(self, name: str) -> Schema:
        """Return the comment above `name`, if there is one."""
        text = self._comments.get(name)
        return {"description": text} if text else {}

    def value(self, field: FieldDescriptor) -> Schema:
        """Return the schema of a field without its comment."""
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            value = self._single(kind.fields_by_name["value"])
            return {"type": "object", "additionalProperties": value}
        if field.is_repeated:
            return {"type": "array", "items": self._single(field)}
        return self._single(field)

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            known = _WELL_KNOWN.get(field.message_type.full_name)
            return dict(known) if known else self.reference(field.message_type)
        if field.enum_type is not None:
            return self.reference(field.enum_type)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _bytes(field)
        return dict(_PLAIN[field.cpp_type])

    def _enum(self, enum: EnumDescriptor) -> Schema:
        lines = [
            f"{value.name}: {text}"
            for value in enum.values
            if (text := self._comments.get(f"{enum.full_name}.{value.name}"))
        ]
        about = self._comments.get(enum.full_name, "")
        return {
            "type": "string",
            "enum": [value.name for value in enum.values],
            "description": "\n".join([about, *lines]),
        }


def _bytes(field: FieldDescriptor) -> Schema:
    form = form_of(field)
    if form == BYTES_FORM_JSON:
        return {}
    if form == BYTES_FORM_TEXT:
        return {"type": "string"}
    return {"type": "string", "contentEncoding": "base64"}
