"""The request of an http step, read from the step's input without touching its body (R12).

The input is `{"method", "url", "headers"?, "query"?, "body"?, "success"?}`. The body is cut out of
the text by position, so that big integers, escapes, key order and spacing go out as they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

BLANK = re.compile(r"[ \t\n\r]*")

# Numbers are only stepped over here, and Python refuses to convert one of 5,000 digits.
_decoder = json.JSONDecoder(parse_int=str, parse_float=str)


class RequestInvalid(ValueError):
    """The step's input does not describe an HTTP request."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send. `success` holds the accepted statuses; empty is any 2xx."""

    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes | None
    success: frozenset[int]

    def accepts(self, status: int) -> bool:
        """Whether a response of this status lets the step end well."""
        return status in self.success if self.success else 200 <= status <= 299


def read_request(data: bytes) -> HttpRequest:
    """Read a step's input. Raises RequestInvalid."""
    try:
        members = _members(data.decode())
        return HttpRequest(
            method=_text(members, "method"),
            url=_text(members, "url"),
            headers=_texts(members, "headers"),
            query=_texts(members, "query"),
            body=members["body"].encode() if "body" in members else None,
            success=frozenset(json.loads(members.get("success", "[]"))),
        )
    except RequestInvalid:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise RequestInvalid(f"the request cannot be read: {error}") from error


def _members(text: str) -> dict[str, str]:
    """Return the members of a JSON object with each value as the text that stands there."""
    members: dict[str, str] = {}
    at = _after(text, 0, "{")
    while text[at : at + 1] != "}":
        name, at = _decoder.raw_decode(text, at)
        start = _after(text, at, ":")
        _, end = _decoder.raw_decode(text, start)
        members[name] = text[start:end]
        at = _blank(text, end)
        if text[at : at + 1] != "}":
            at = _after(text, at, ",")
    return members


def _after(text: str, at: int, mark: str) -> int:
    at = _blank(text, at)
    if text[at : at + 1] != mark:
        raise RequestInvalid(f"the request is no JSON object: {mark!r} is missing at {at}")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    return found.end() if found else at


def _text(members: Mapping[str, str], name: str) -> str:
    value = json.loads(members[name]) if name in members else None
    if not isinstance(value, str) or not value:
        raise RequestInvalid(f"the request's {name} is no text")
    return value


def _texts(members: Mapping[str, str], name: str) -> dict[str, str]:
    # A number or a boolean goes out as it is written; what JSON quotes goes out unquoted.
    found = _members(members.get(name, "{}"))
    return {key: json.loads(raw) if raw.startswith('"') else raw for key, raw in found.items()}
