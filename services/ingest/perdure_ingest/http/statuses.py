"""Errors as HTTP answers: a `google.rpc.Status` in JSON, under the usual HTTP status."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import grpc
from aiohttp import web
from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_runtime.errors import PerdureError, Reason, Unimplemented
from perdure_runtime.reasons import Code
from perdure_runtime.rpc.errors import to_status

from perdure_ingest.http.writing import plain_json

JSON = "application/json"
HEADERS: Mapping[str, str] = MappingProxyType(
    {"Server": "perdure", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
)
"""Of every answer."""

_BY_NUMBER = {grpc.StatusCode[code].value[0]: code.http for code in Code}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer."""

    code: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def response(self) -> web.Response:
        """Return it as it is sent."""
        typed = {"Content-Type": JSON} if self.body else {}
        return web.Response(
            status=self.code, body=self.body or None, headers={**HEADERS, **typed, **self.headers}
        )


def refusal(error: PerdureError) -> Answer:
    """Return the answer that tells of an error found before any call was made."""
    return failure(to_status(error))


def failure(status: Status, http_code: int = 0) -> Answer:
    """Return the answer that tells of a failed call; `http_code` replaces the usual one."""
    headers = dict[str, str]()
    code = http_code or _BY_NUMBER.get(status.code, 500)
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if (wait := _retry_seconds(status)) is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return Answer(code, status_json(status), headers)


def no_route(verb: str, path: str, others: frozenset[str]) -> Answer:
    """Return the answer to what is no call; `others` are the HTTP methods that the path has."""
    allowed = ", ".join(sorted(others))
    what = f"{path} takes {allowed}, not {verb}" if others else f"there is nothing at {path}"
    error = Unimplemented(what, reason=Reason.METHOD_UNKNOWN)
    answer = failure(to_status(error), 405 if others else 404)
    return Answer(answer.code, answer.body, {"Allow": allowed} if others else {})


def status_json(status: Status) -> bytes:
    """Return a status in protobuf's JSON."""
    return plain_json(MessageToDict(status, preserving_proto_field_name=True))


def _retry_seconds(status: Status) -> float | None:
    retry = RetryInfo()
    for detail in status.details:
        if detail.Unpack(retry):
            return float(retry.retry_delay.seconds) + float(retry.retry_delay.nanos) / 1e9
    return None
