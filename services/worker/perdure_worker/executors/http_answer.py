"""What the answer to an HTTP call becomes: the step's output, or its error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

import httpx

from perdure_worker.executors.http_request import HttpRequest
from perdure_worker.executors.retry_after import retry_after
from perdure_worker.executors.verdicts import failed, of_status
from perdure_worker.outcome import Completed, Effect, Failed, Outcome

KEPT_HEADERS = (
    "content-type", "date", "etag", "last-modified", "link", "location", "retry-after",
    "x-request-id",
)  # fmt: skip
"""Headers that become part of the output; others may hold cookies and secrets."""

MAX_EXCERPT_CHARACTERS = 2000
"""How much of an error's body is kept for people."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. Its body is whole if its status is accepted; else it is what was read of it."""

    status: int
    headers: httpx.Headers
    body: bytes
    encoding: str


def to_outcome(request: HttpRequest, answer: Answer, now: datetime) -> Outcome:
    """Return how the step's try ended; `now` serves for a Retry-After date without a Date."""
    if request.accepts(answer.status):
        return Completed(output_of(answer), Effect.PERFORMED)
    return failure_of(request, answer, now)


def failure_of(request: HttpRequest, answer: Answer, now: datetime) -> Failed:
    """Return what an answer says whose status is not accepted; `now` as for `to_outcome`."""
    return failed(
        of_status(answer.status),
        f"{request.shown} was answered with {answer.status}",
        details=_details(answer),
        retry_after=retry_after(answer.headers, now),
    )


def output_of(answer: Answer) -> bytes:
    """Return an answer as the output of a step; a JSON body stays byte for byte (R12)."""
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
