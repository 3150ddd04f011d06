"""JSON documents as messages, everything wrong said at once and by field.

A document is read along its message's fields, because protobuf's reader would turn payloads into
values and back, lose doubled members and name no field. Payloads are cut out as they stand (R12)
and checked by the handlers as those of every door; leaves are read by protobuf itself.

Bytes that are not UTF-8 are carried as surrogates until the field is known that they are in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from perdure_contracts.v1.options_pb2 import BYTES_FORM_TEXT, BYTES_FORM_UNSPECIFIED
from perdure_machine.payload import deeper_than
from perdure_runtime.errors import FieldViolation, InvalidArgument

from perdure_ingest.http.fields import by_json_name, form_of, is_message
from perdure_ingest.limits import MAX_PAYLOAD_DEPTH

BODY = "body"
"""Names the document as a whole in what is refused."""

MAX_DEPTH = MAX_PAYLOAD_DEPTH + 20
"""Levels of a document: those of a payload, and those around it."""

MAX_INTEGER_DIGITS = 40
MAX_VIOLATIONS = 100
MAX_ITEMS = 10_000
"""Of a list of objects."""

_SPACE = re.compile(r"[ \t\n\r]*")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_FIELD_PREFIX = re.compile(r"^(?:Failed to parse [\w.]+ field: )+")
_PLACE_SUFFIX = re.compile(r" at [\w.]+\.?$")
_DIGITS_SHOWN = 60


class _Broken(Exception):
    """The document is no JSON from here on, so no more can be said of it."""


class Violations:
    """What is wrong with one request, by field: `found` is in the order of the request."""

    def __init__(self) -> None:
        self.found: list[FieldViolation] = []

    def add(self, field: str, description: str) -> bool:
        """Note a violation; False, and not noted, when there are as many as are told."""
        if len(self.found) == MAX_VIOLATIONS:
            return False
        self.found.append(FieldViolation(field, description))
        return True

    def refuse(self) -> None:
        """Raise InvalidArgument, FIELD_INVALID, with all of them if there are any."""
        if self.found:
            first = self.found[0]
            raise InvalidArgument(
                f"the request has {len(self.found)} problem(s): {first.field}: {first.description}",
                violations=self.found,
            )


def read_json(data: bytes, message: Message, violations: Violations) -> None:
    """Fill a message from a JSON object in UTF-8; empty is the empty object."""
    if deeper_than(data, MAX_DEPTH):
        violations.add(BODY, f"is nested deeper than {MAX_DEPTH} levels")
    elif data:
        _Document(data.decode(errors="surrogateescape"), violations).read(message)


def read_leaf(message: Message, field: FieldDescriptor, value: Any) -> str:
    """Set a field, which holds no payload, to a JSON value; return what is wrong, else nothing."""
    if problem := _text_problem(value):
        return problem
    scratch = type(message)()
    try:
        ParseDict({field.name: value}, scratch)
    except ParseError as error:
        return _words_of(error)
    message.MergeFrom(scratch)
    return ""


class _Document:
    """One document, read from the start to its end."""

    def __init__(self, text: str, violations: Violations) -> None:
        self._text = text
        self._at = 0
        self._violations = violations

    def read(self, message: Message) -> None:
        """Fill `message`; everything wrong is noted."""
        try:
            self._object(message, "")
            if self._next():
                self._break(BODY, "goes on after its end")
        except _Broken:
            return

    def _object(self, message: Message, path: str) -> None:
        if self._next() != "{":
            self._add(path or BODY, "must be an object")
            self._value(path or BODY)
            return
        seen = set[str]()

        def member() -> None:
            name = self._value(path or BODY)
            if not isinstance(name, str) or not name:
                self._break(path or BODY, "has a member without a name")
            self._expect(":", path or BODY)
            self._member(message, name, f"{path}.{name}" if path else name, seen)

        self._each("}", path or BODY, member)

    def _member(self, message: Message, name: str, path: str, seen: set[str]) -> None:
        field = by_json_name(message.DESCRIPTOR).get(name)
        if field is None:
            self._add(path, "is no field of this message")
            self._value(path)
        elif problem := _taken(field, seen):
            self._add(path, problem)
            self._value(path)
        else:
            self._field(message, field, path)

    def _field(self, message: Message, field: FieldDescriptor, path: str) -> None:
        if form_of(field) != BYTES_FORM_UNSPECIFIED:
            self._payload(message, field, path)
        elif not is_message(field) or self._next() == "n":
            if problem := read_leaf(message, field, self._value(path)):
                self._add(path, problem)
        elif field.is_repeated:
            self._list(getattr(message, field.name), path)
        else:
            inner: Message = getattr(message, field.name)
            inner.SetInParent()
            self._object(inner, path)

    def _list(self, items: Any, path: str) -> None:
        if self._next() != "[":
            self._add(path, "must be a list")
            self._value(path)
            return

        def item() -> None:
            if len(items) == MAX_ITEMS:
                self._break(path, f"has more than {MAX_ITEMS} items")
            self._object(items.add(), f"{path}[{len(items) - 1}]")

        self._each("]", path, item)

    def _payload(self, message: Message, field: FieldDescriptor, path: str) -> None:
        self._next()
        start = self._at
        if form_of(field) == BYTES_FORM_TEXT:
            value = self._value(path)
            if not isinstance(value, str):
                self._add(path, "must be a string")
            elif problem := _text_problem(value):
                self._add(path, problem)
            else:
                setattr(message, field.name, value.encode())
            return
        self._scan(path, _spans)
        raw = self._text[start : self._at]
        setattr(message, field.name, raw.encode(errors="surrogateescape"))

    def _each(self, closing: str, path: str, item: Callable[[], None]) -> None:
        """Read what stands between brackets, each part by `item`."""
        self._at += 1
        if self._next() == closing:
            self._at += 1
            return
        while True:
            item()
            if self._next() == closing:
                self._at += 1
                return
            self._expect(",", path)

    def _value(self, path: str) -> Any:
        return self._scan(path, _values)

    def _scan(self, path: str, decoder: json.JSONDecoder) -> Any:
        self._next()
        try:
            value, self._at = decoder.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            self._break(path, f"is no JSON at character {error.pos}: {error.msg}")
        except ValueError as error:
            self._break(path, str(error))
        return value

    def _next(self) -> str:
        """Pass over space and return the character that follows; empty at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _expect(self, mark: str, path: str) -> None:
        if self._next() != mark:
            self._break(path, f"is no JSON at character {self._at}: `{mark}` is missing")
        self._at += 1

    def _add(self, path: str, problem: str) -> None:
        """Note a problem; with as many as are told nothing more is read."""
        if not self._violations.add(path, problem):
            raise _Broken

    def _break(self, path: str, problem: str) -> None:
        self._add(path, problem)
        raise _Broken


def _taken(field: FieldDescriptor, seen: set[str]) -> str:
    """Note a field as given; return what is wrong with that, else nothing."""
    if field.name in seen:
        return "is given twice"
    seen.add(field.name)
    choice = field.containing_oneof
    if choice is None or len(choice.fields) == 1:
        return ""
    if choice.name in seen:
        return f"is given beside another of {', '.join(each.name for each in choice.fields)}"
    seen.add(choice.name)
    return ""


def _text_problem(value: Any) -> str:
    """Return what is wrong with the texts of a value, else nothing."""
    if isinstance(value, dict):
        return next(filter(None, map(_text_problem, [*value, *value.values()])), "")
    if isinstance(value, list):
        return next(filter(None, map(_text_problem, value)), "")
    found = _UNSTORABLE.search(value) if isinstance(value, str) else None
    if found is None:
        return ""
    if found[0] == "\x00":
        return "holds a NUL character"
    is_byte = "\udc80" <= found[0] <= "\udcff"
    return "is not UTF-8" if is_byte else "holds half of a surrogate pair"


def _words_of(error: ParseError) -> str:
    """Return protobuf's words without the places in them, which are given as the field."""
    words = _PLACE_SUFFIX.sub("", _FIELD_PREFIX.sub("", str(error)))
    return words if len(words) <= 2 * _DIGITS_SHOWN else f"{words[: 2 * _DIGITS_SHOWN]}…"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict[str, Any]()
    for name, value in pairs:
        if name in members:
            raise ValueError(f"has the member `{name}` twice")
        members[name] = value
    return members


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)


def _no_constant(name: str) -> None:
    raise ValueError(f"holds {name}, which is no JSON")


_values = json.JSONDecoder(object_pairs_hook=_once, parse_int=_integer, parse_constant=_no_constant)
# What is read with it is passed over; `float` takes integers of every length, `int` does not.
_spans = json.JSONDecoder(parse_int=float, parse_constant=_no_constant)
