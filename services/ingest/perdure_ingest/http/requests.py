"""One HTTP request as the message of its call: path, query, headers and body."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from aiohttp import HttpVersion11, web
from google.protobuf import message_factory
from google.protobuf.message import Message
from perdure_contracts.v1.options_pb2 import BYTES_FORM_UNSPECIFIED
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_runtime.rpc.options import MAX_MESSAGE_BYTES

from perdure_ingest.http.fields import by_json_name, form_of
from perdure_ingest.http.parameters import read_path, read_query
from perdure_ingest.http.reading import BODY, Violations, read_json
from perdure_ingest.http.routes import Route

TIMEOUT_HEADER = "Perdure-Timeout"
"""Seconds that the client gives the call, a decimal such as `2.5`."""

MAX_TIMEOUT_SECONDS = 86_400.0
MAX_BODY_BYTES = MAX_MESSAGE_BYTES
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

JSON_TYPES = frozenset({"application/json"})
TEXT_TYPES = JSON_TYPES | {"application/yaml", "application/x-yaml", "text/yaml"}


class BodyRefused(InvalidArgument):
    """The body is not read, for which HTTP has a status of its own: `http_code`."""

    def __init__(
        self,
        http_code: int,
        problem: str,
        *,
        reason: Reason = Reason.FIELD_INVALID,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            f"{BODY} {problem}",
            reason=reason,
            metadata=metadata,
            violations=[FieldViolation(BODY, problem)],
        )
        self.http_code = http_code


async def read_message(
    request: web.BaseRequest, route: Route, values: Mapping[str, bytes], seconds: float
) -> Message:
    """Return the message that a request stands for, its body read within `seconds`.

    Raises InvalidArgument, with everything wrong by field, or BodyRefused.
    """
    message: Message = message_factory.GetMessageClass(route.request)()
    violations = Violations()
    body = await _read_body(request, route, seconds)
    if route.body == "*":
        read_json(body, message, violations)
        taken = set(route.request.fields_by_name)
    else:
        taken = {*route.variables, *([route.body] if route.body else [])}
        if route.body:
            _read_body_field(body, message, route.body, violations)
    read_path(values, message, violations)
    read_query(request.raw_path.partition("?")[2], message, taken, violations)
    violations.refuse()
    return message


def seconds_given(request: web.BaseRequest) -> float | None:
    """Return what the client says of its patience, None for nothing. Raises InvalidArgument."""
    text = request.headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        problem = f"must be seconds, more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}"
        raise InvalidArgument(
            f"{TIMEOUT_HEADER} {problem}", violations=[FieldViolation(TIMEOUT_HEADER, problem)]
        )
    return seconds


def _read_body_field(body: bytes, message: Message, name: str, violations: Violations) -> None:
    field = by_json_name(message.DESCRIPTOR)[name]
    if form_of(field) == BYTES_FORM_UNSPECIFIED:
        read_json(body, getattr(message, name), violations)
    else:
        setattr(message, name, body)


async def _read_body(request: web.BaseRequest, route: Route, seconds: float) -> bytes:
    if not request.can_read_body:
        return b""
    if not route.body:
        raise _other_type("must not be given: this call has none")
    _check_type(request, route)
    size = request.content_length
    if size is not None and size > MAX_BODY_BYTES:
        raise _too_large(size)
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower().startswith(
        "100-"
    ):
        await request.writer.write(CONTINUE)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(request)
    except TimeoutError:
        raise BodyRefused(408, f"did not arrive within {seconds:g} seconds") from None


async def _collect(request: web.BaseRequest) -> bytes:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large(len(body))
    return bytes(body)


def _check_type(request: web.BaseRequest, route: Route) -> None:
    allowed = JSON_TYPES
    if route.body != "*" and form_of(by_json_name(route.request)[route.body]):
        allowed = TEXT_TYPES
    if request.content_type not in allowed or "Content-Type" not in request.headers:
        raise _other_type(f"must be of Content-Type {' or '.join(sorted(allowed))}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise _other_type("must not be compressed")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise _other_type("must be in UTF-8")


def _other_type(problem: str) -> BodyRefused:
    return BodyRefused(415, problem)


def _too_large(size: int) -> BodyRefused:
    return BodyRefused(
        413,
        f"holds {size} bytes or more; at most {MAX_BODY_BYTES} are allowed",
        reason=Reason.PAYLOAD_TOO_LARGE,
        metadata={"limit": str(MAX_BODY_BYTES), "size": str(size)},
    )
