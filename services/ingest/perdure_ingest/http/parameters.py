"""What the path and the query of a request say, as fields of its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from perdure_ingest.http.fields import by_json_name, is_message
from perdure_ingest.http.reading import Violations, read_leaf

MAX_PARAMETERS = 100
QUERY = "query"
"""Names the query as a whole in what is refused."""

_NAME = re.compile(r"(?P<field>\w+)(?:\[(?P<key>[^\]]*)\])?")
_WORDS = {"true": True, "false": False}


def read_path(values: Mapping[str, bytes], message: Message, violations: Violations) -> None:
    """Set the fields that the path names; what the body says of them must be the same."""
    for name, raw in values.items():
        field = by_json_name(message.DESCRIPTOR)[name]
        said = getattr(message, name)
        message.ClearField(name)
        if problem := _set(message, field, raw.decode(errors="surrogateescape")):
            violations.add(name, problem)
        elif said and said != getattr(message, name):
            violations.add(name, "is another in the body than in the path")


def read_query(query: str, message: Message, taken: Iterable[str], violations: Violations) -> None:
    """Set fields by the query's parameters: those with a name in `taken` have their value already.

    A list is a parameter that is repeated, a member of a map is `tags[key]=value`.
    """
    try:
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        violations.add(QUERY, f"has more than {MAX_PARAMETERS} parameters")
        return
    seen = set(taken)
    for name, text in pairs:
        if problem := _parameter(message, name, text, seen):
            violations.add(name, problem)


def _parameter(message: Message, name: str, text: str, seen: set[str]) -> str:
    found = _NAME.fullmatch(name)
    field = by_json_name(message.DESCRIPTOR).get(found["field"]) if found else None
    if found is None or field is None or is_message(field):
        return "is no parameter of this call"
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map != (found["key"] is not None):
        return "must be given as `name[key]=value`" if is_map else "is no map"
    place = f"{field.name}[{found['key']}]" if is_map else field.name
    if place in seen or (is_map and field.name in seen):
        return "is given twice"
    if is_map:
        seen.add(place)
        return read_leaf(message, field, {found["key"]: text})
    if not field.is_repeated:
        seen.add(place)
    return _set(message, field, text)


def _set(message: Message, field: FieldDescriptor, text: str) -> str:
    value: Any = text
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        value = _WORDS.get(text, text)
    return read_leaf(message, field, [value] if field.is_repeated else value)
