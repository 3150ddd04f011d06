"""What the answer to an HTTP call means: the step's output or error, and the fate of its effect.

Accepted statuses and 2xx were performed. A 4xx is a definite no, except 408 and 409; these, 5xx
and everything else leave it unknown (design section 8).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn

import httpx

from perdure_worker.executors.http_request import HttpRequest
from perdure_worker.outcome import Completed, Effect, ErrorClass, Failed, Outcome

KEPT_HEADERS = (
    "content-type", "date", "etag", "last-modified", "link", "location", "retry-after",
    "x-request-id",
)  # fmt: skip
"""Headers that become part of the output; others may hold cookies and secrets."""

MAX_EXCERPT_CHARACTERS = 2000
"""How much of an error's body is kept for people."""

REQUEST_TIMEOUT, CONFLICT, TOO_MANY_REQUESTS = 408, 409, 429
NOT_AUTHORISED = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response whose body was read whole."""

    status: int
    headers: httpx.Headers
    body: bytes
    encoding: str


def to_outcome(request: HttpRequest, answer: Answer, now: datetime) -> Outcome:
    """Return how the step's try ended; `now` serves for a Retry-After date without a Date."""
    if request.accepts(answer.status):
        return Completed(_output(answer), Effect.PERFORMED)
    return Failed(
        error_class(answer.status),
        f"HTTP_{answer.status}",
        f"{request.method} {without_query(request.url)} was answered with {answer.status}",
        details=_details(answer),
        retry_after=retry_after(answer.headers, now),
        effect=effect_of(answer.status),
    )


def effect_of(status: int) -> Effect:
    """Return what a status says of the effect."""
    if 200 <= status <= 299:
        return Effect.PERFORMED
    if 400 <= status <= 499 and status not in (REQUEST_TIMEOUT, CONFLICT):
        return Effect.NOT_PERFORMED
    return Effect.UNKNOWN


def error_class(status: int) -> ErrorClass:
    """Return what a status that was not accepted means for retries."""
    if status == TOO_MANY_REQUESTS:
        return ErrorClass.RATE_LIMITED
    if status in NOT_AUTHORISED:
        return ErrorClass.AUTHORISATION
    if status == REQUEST_TIMEOUT or status >= 500:
        return ErrorClass.RETRYABLE
    return ErrorClass.PERMANENT


def retry_after(headers: httpx.Headers, now: datetime) -> float | None:
    """Return the seconds that Retry-After asks for, None if it asks for none that can be read.

    A date counts from the response's own Date, so a wrong clock here moves nothing (F105).
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    due, sent = _date(text), _date(headers.get("date", ""))
    return None if due is None else max(0.0, (due - (sent or now)).total_seconds())


def without_query(url: str) -> str:
    """Return a URL for people: without query and fragment, which may hold secrets."""
    return url.partition("?")[0].partition("#")[0]


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _output(answer: Answer) -> bytes:
    kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    head = json.dumps({"status": answer.status, "headers": kept}, separators=(",", ":"))
    return head[:-1].encode() + b',"body":' + _body(answer) + b"}"


def _body(answer: Answer) -> bytes:
    if not answer.body:
        return b"null"
    if _says_json(answer.headers) and _is_json(answer.body):
        return answer.body
    return json.dumps(_decoded(answer)).encode()


def _says_json(headers: httpx.Headers) -> bool:
    kind: str = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _is_json(body: bytes) -> bool:
    try:
        # Numbers are only checked: Python refuses to convert one of 5,000 digits.
        json.loads(body.decode(), parse_int=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _decoded(answer: Answer) -> str:
    try:
        return answer.body.decode(answer.encoding, "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")


def _details(answer: Answer) -> bytes:
    excerpt = _decoded(answer)[:MAX_EXCERPT_CHARACTERS]
    return json.dumps({"status": answer.status, "body": excerpt}).encode()
