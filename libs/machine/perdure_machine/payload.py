"""Payloads as bytes (R12, p10): checked once at the door, cut by path, never rewritten.

A payload is JSON text in UTF-8. Nothing here turns it into values and back, because that would lose
integers beyond 64 bit, escapes, key order or spacing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

import msgspec
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

Path = tuple[str | int, ...]
"""Keys and indexes from the top of a payload to a value in it."""

# Also one that never ends, and nothing is given back: else text of many quotes takes hours.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOKEN = re.compile(rb'[\s]*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s"{}\[\],:]+))', re.DOTALL)
_REPLACEMENT = rb"\ufffd"

_DEPTH_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _DEPTH_STEP)

_whole = msgspec.json.Decoder(msgspec.Raw)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


def check_payload(data: bytes, field: str, max_bytes: int, max_depth: int) -> None:
    """Refuse `data` unless it is one JSON document in UTF-8 within both limits.

    Integers of any size, escaped NUL and escaped lone surrogates are JSON and pass. `field` names
    the payload in the error. Raises `InvalidArgument` with PAYLOAD_TOO_LARGE or PAYLOAD_INVALID.
    """
    if len(data) > max_bytes:
        raise _refusal(
            field,
            f"holds {len(data)} bytes; at most {max_bytes} are allowed",
            Reason.PAYLOAD_TOO_LARGE,
            {"limit": str(max_bytes), "size": str(len(data))},
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal(field, f"is not UTF-8 at byte {error.start}") from error
    if deeper_than(data, max_depth):
        raise _refusal(field, f"is nested deeper than {max_depth} levels")
    try:
        _whole.decode(without_lone_surrogates(data))
    except msgspec.DecodeError as error:
        raise _refusal(field, f"is not a JSON document: {error}") from error


def deeper_than(data: bytes, max_depth: int) -> bool:
    """Tell whether JSON text nests objects and lists deeper than `max_depth` levels."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return False
    brackets = _STRING.sub(b"", data).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_DEPTH_STEP.__getitem__, brackets)), default=0) > max_depth


def cut(data: bytes, path: Path) -> bytes | None:
    """Return the bytes of the value at `path` exactly as they came, or None if there is none.

    `data` is a checked payload. Of two members with one name the last counts, as in most readers.
    """
    if not path:
        return data
    if _SURROGATE.search(data):
        return _cut_by_tokens(data, path)
    value: bytes | None = data
    for part in path:
        value = _child(value, part) if value is not None else None
    return value


def object_bytes(members: Mapping[str, bytes]) -> bytes:
    """Join ready JSON values into an object, byte for byte (R12)."""
    return b"{" + b",".join(json.dumps(k).encode() + b":" + v for k, v in members.items()) + b"}"


def elements(data: bytes) -> list[bytes] | None:
    """Return the elements of a JSON list exactly as they came, or None if it is no list."""
    if data.lstrip()[:1] != b"[":
        return None
    if not _SURROGATE.search(data):
        return [bytes(element) for element in _elements.decode(data)]
    found: list[bytes] = []
    while (element := _cut_by_tokens(data, (len(found),))) is not None:
        found.append(element)
    return found


def with_member(data: bytes, key: str, value: bytes) -> bytes:
    """Return the JSON object `data` with the bytes of its member `key` replaced by `value`.

    Every other byte stays. Raises KeyError if there is no such member.
    """
    start = _span(data, 0)[0]
    found = _child_span(data, start, key)
    if found is None:
        raise KeyError(key)
    return data[: found[0]] + value + data[found[1] :]


def with_members_added(data: bytes, members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the JSON object `data` with more members at its end; every other byte stays."""
    closing = data.rindex(b"}")
    is_empty = data[:closing].strip() == b"{"
    written = [json.dumps(key).encode() + b":" + value for key, value in members]
    return data[:closing] + (b"" if is_empty else b",") + b",".join(written) + data[closing:]


def without_lone_surrogates(data: bytes) -> bytes:
    """Return JSON text whose escaped halves of surrogate pairs are U+FFFD, for strict readers.

    For looking at only: what is kept and handed on is the payload itself.
    """
    if not _SURROGATE.search(data):
        return data
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape["lone"] else escape[0], data)


def _child(data: bytes, part: str | int) -> bytes | None:
    opening = data.lstrip()[:1]
    if isinstance(part, str):
        member = _members.decode(data).get(part) if opening == b"{" else None
        return bytes(member) if member is not None else None
    if opening != b"[" or part < 0:
        return None
    elements = _elements.decode(data)
    return bytes(elements[part]) if part < len(elements) else None


def _cut_by_tokens(data: bytes, path: Path) -> bytes | None:
    """Cut without the fast reader; slower, and indifferent to what strings hold."""
    start, end = _span(data, 0)
    for part in path:
        found = _child_span(data, start, part)
        if found is None:
            return None
        start, end = found
    return data[start:end]


def _span(data: bytes, position: int) -> tuple[int, int]:
    """Return where the value that begins at or after `position` starts and ends."""
    depth, start = 0, -1
    while True:
        match = _token(data, position)
        position = match.end()
        start = match.start(match.lastindex or 0) if start < 0 else start
        depth += _DEPTH_STEP.get(match[2][0], 0) if match[2] else 0
        if depth == 0:
            return start, position


def _child_span(data: bytes, start: int, part: str | int) -> tuple[int, int] | None:
    """Return the span of one member or element of the container that begins at `start`."""
    opening = data[start : start + 1]
    if opening != (b"{" if isinstance(part, str) else b"["):
        return None
    found, position, index = None, start + 1, 0
    while True:
        match = _token(data, position)
        if match[2] in (b"}", b"]"):
            return found
        if match[2] == b",":
            position = match.end()
            continue
        name: str | int = index
        if opening == b"{":
            name = _text(match[1])
            position = _token(data, match.end()).end()
        value = _span(data, position)
        found = value if name == part else found
        position, index = value[1], index + 1


def _token(data: bytes, position: int) -> re.Match[bytes]:
    match = _TOKEN.match(data, position)
    if match is None:
        raise _refusal("payload", "ends in the middle of a value")
    return match


def _text(literal: bytes) -> str:
    """Read a string literal; unlike the fast reader this one takes lone surrogates."""
    return str(json.loads(literal))


def _refusal(
    field: str,
    problem: str,
    reason: Reason = Reason.PAYLOAD_INVALID,
    metadata: dict[str, str] | None = None,
) -> InvalidArgument:
    return InvalidArgument(
        f"{field} {problem}",
        reason=reason,
        metadata=metadata,
        violations=[FieldViolation(field, problem)],
    )
