"""The request of an http step, read from the step's input without touching its body (R12).

The input is `{"method", "url", "headers"?, "query"?, "body"?, "success"?, "timeouts"?,
"redirects"?, "lookup"?}`, where `lookup` is such a request too. The body is cut out of the text by
position, so that big integers, escapes, key order and spacing go out as they came.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import httpx

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
MOST_REDIRECTS = 10
MOST_SECONDS = 86_400.0

TELLING = frozenset({*range(200, 300), 404, 410})
"""Statuses by which a look-up tells whether a call was performed."""

OWN_HEADERS = frozenset(
    {
        "connection", "content-length", "expect", "host", "http2-settings", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that say where a message goes or ends: never the definition's, who could hide a second
request in the first with them."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
BLANK = re.compile(r"[ \t\n\r]*")

RequestT = TypeVar("RequestT")

# Numbers are only stepped over here, and Python refuses to convert one of 5,000 digits.
_decoder = json.JSONDecoder(parse_int=str, parse_float=str)


class RequestInvalid(ValueError):
    """The step's input does not describe an HTTP request."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for a connection to be there, and for the next bytes to come; None is the worker's
    own setting.
    """

    connect: float | None = None
    read: float | None = None


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send. `success` holds the accepted statuses; empty is any 2xx. `redirects` is how
    many are followed, None if the definition does not say.
    """

    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: bytes | None
    success: frozenset[int]
    timeouts: Timeouts = Timeouts()
    redirects: int | None = None

    def accepts(self, status: int) -> bool:
        """Whether a response of this status lets the step end well."""
        return status in self.success if self.success else 200 <= status <= 299

    @property
    def shown(self) -> str:
        """Method and URL for people: without what may hold secrets."""
        return f"{self.method} {shown_url(self.url)}"


def read_request(data: bytes, base: str = "") -> HttpRequest:
    """Read a step's input; a relative URL is relative to `base`. Raises RequestInvalid."""
    return read(lambda: to_request(members_of(data.decode()), base))


def read_lookup(data: bytes, base: str = "") -> HttpRequest:
    """Read the look-up of a step's input: any answer counts that tells. Raises RequestInvalid."""

    def lookup() -> HttpRequest:
        asked = lookup_of(members_of(data.decode()))
        return replace(to_request(asked, base), success=TELLING)

    return read(lookup)


def compose_request(
    method: str,
    url: str,
    base: str,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    body: bytes | None,
) -> HttpRequest:
    """Return the request of a handler, by the rules of an http step's. Raises RequestInvalid."""
    members = {"method": method, "url": url, "headers": dict(headers), "query": dict(query)}

    def compose() -> HttpRequest:
        texts = {name: json.dumps(value) for name, value in members.items()}
        return replace(to_request(texts, base), body=body)

    return read(compose)


def digest_of(request: HttpRequest) -> bytes:
    """Return a digest of what is asked for: the same key with another request is refused."""
    parts = (request.method.encode(), str(request.url).encode(), request.body or b"")
    return hashlib.sha256(b"\n".join(parts)).digest()


def read(to_request: Callable[[], RequestT]) -> RequestT:
    """Return what this reads of a step's input. Raises RequestInvalid where it cannot."""
    try:
        return to_request()
    except RequestInvalid:
        raise
    except (ValueError, TypeError, RecursionError, httpx.InvalidURL) as error:
        raise RequestInvalid(f"the request cannot be read: {error}") from error


def to_request(members: Mapping[str, str], base: str = "") -> HttpRequest:
    """Return the request of which these are the members, each as JSON text.

    Raises RequestInvalid, and what reading its members raises.
    """
    return HttpRequest(
        method=_method(members),
        url=_url(text_of(members, "url"), base, texts_of(members, "query")),
        headers=_headers(texts_of(members, "headers")),
        body=members["body"].encode() if "body" in members else None,
        success=frozenset(json.loads(members.get("success", "[]"))),
        timeouts=_timeouts(members_of(members.get("timeouts", "{}"))),
        redirects=_redirects(members.get("redirects")),
    )


def shown_url(url: httpx.URL) -> str:
    """Return a URL for people: without user, password, query and fragment."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _method(members: Mapping[str, str]) -> str:
    method = text_of(members, "method")
    if method not in METHODS:
        raise RequestInvalid(f"the method is none of {', '.join(sorted(METHODS))}")
    return method


def _url(text: str, base: str, query: Mapping[str, str]) -> httpx.URL:
    url = httpx.URL(text)
    if base and not url.is_absolute_url:
        url = httpx.URL(base).join(url)
    if url.scheme not in ("http", "https") or not url.host:
        raise RequestInvalid("the request's url is not an http or https URL with a host")
    # Merging nothing would still rewrite the escapes of the query that is there.
    return url.copy_merge_params(dict(query)) if query else url


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise RequestInvalid(f"the header {name!r} holds characters that no header may hold")
        if name.lower() in OWN_HEADERS:
            raise RequestInvalid(f"the header {name!r} is not the definition's to set")
    return {name: value.strip() for name, value in headers.items()}


def _timeouts(members: Mapping[str, str]) -> Timeouts:
    return Timeouts(_seconds(members, "connect"), _seconds(members, "read"))


def _seconds(members: Mapping[str, str], name: str) -> float | None:
    if name not in members:
        return None
    seconds = float(members[name])
    if not 0 < seconds <= MOST_SECONDS:
        raise RequestInvalid(f"the request's time-out {name} is not above 0 and at most a day")
    return seconds


def _redirects(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or int(text[:4]) > MOST_REDIRECTS:
        raise RequestInvalid(f"the request's redirects are not 0 to {MOST_REDIRECTS}")
    return int(text)


def members_of(text: str) -> dict[str, str]:
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


def lookup_of(members: Mapping[str, str]) -> dict[str, str]:
    """Return the members of the look-up of a request. Raises RequestInvalid if it has none."""
    if "lookup" not in members:
        raise RequestInvalid("the request has no look-up")
    return members_of(members["lookup"])


def text_of(members: Mapping[str, str], name: str) -> str:
    """Return the text that a member is. Raises RequestInvalid if it is none."""
    value = json.loads(members[name]) if name in members else None
    if not isinstance(value, str) or not value:
        raise RequestInvalid(f"the request's {name} is no text")
    return value


def texts_of(members: Mapping[str, str], name: str) -> dict[str, str]:
    """Return a member that is an object of texts; missing, an empty one.

    A number or a boolean is as it is written; what JSON quotes is unquoted. Raises RequestInvalid.
    """
    found = members_of(members.get(name, "{}"))
    return {key: json.loads(raw) if raw.startswith('"') else raw for key, raw in found.items()}
