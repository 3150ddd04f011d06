"""What a call of Perdure's API can raise: one class, told apart by `code` and `reason`.

PerdureApiError        the server refused the call, or could not be reached
└── PerdureUnavailable nobody answered, or the server asked to come back; the call may be repeated
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

STATUS_DETAILS_KEY = "grpc-status-details-bin"
"""The trailer that carries `google.rpc.Status`."""

NOT_REACHED = "NOT_REACHED"
"""The reason given when no Perdure server answered: the error is of the transport."""

MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with one field of the request: its path, and what to change."""

    field: str
    description: str


class PerdureApiError(Exception):
    """A call was refused or not answered.

    `code` is the gRPC code's name, `reason` the stable name of what happened (each has a page in
    the documentation), `message` is for people. `fields` lists everything wrong with the request,
    `metadata` more for programs, such as the `run_id` of a run that was started before.
    `retry_after` is the wait in seconds that the server asked for, None if it asked for none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        reason: str,
        metadata: Mapping[str, str] | None = None,
        fields: tuple[FieldProblem, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata or {}))
        self.fields = fields
        self.retry_after = retry_after
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class PerdureUnavailable(PerdureApiError):
    """Nobody answered, or the server asked to come back; the same call may be repeated."""


class FailedCall(Protocol):
    """A call that failed, of whichever kind of channel."""

    def code(self) -> grpc.StatusCode:
        """Return the code."""

    def details(self) -> str | None:
        """Return the text."""

    def trailing_metadata(self) -> Any:
        """Return the trailer."""


def from_rpc_error(error: FailedCall) -> PerdureApiError:
    """Read a failed call's status, its rich details if the server sent some."""
    status = _rich_status(error)
    info = _detail(status, error_details_pb2.ErrorInfo)
    code = error.code()
    kind = PerdureUnavailable if code is grpc.StatusCode.UNAVAILABLE else PerdureApiError
    return kind(
        error.details() or code.name,
        code=code.name,
        reason=info.reason if info else _transport_reason(code, error.details() or ""),
        metadata=info.metadata if info else None,
        fields=_fields(status),
        retry_after=_retry_after(status),
    )


def _transport_reason(code: grpc.StatusCode, details: str) -> str:
    if code is grpc.StatusCode.UNAVAILABLE:
        return NOT_REACHED
    # The transport has one code for a rate and for a size; only its text tells them apart (F091).
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return "PAYLOAD_TOO_LARGE"
    return code.name


def _rich_status(error: FailedCall) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                break
    return status_pb2.Status()


def _detail(status: status_pb2.Status, kind: type[MessageT]) -> MessageT | None:
    for packed in status.details:
        if packed.Is(kind.DESCRIPTOR):
            detail = kind()
            packed.Unpack(detail)
            return detail
    return None


def _fields(status: status_pb2.Status) -> tuple[FieldProblem, ...]:
    bad = _detail(status, error_details_pb2.BadRequest)
    violations = bad.field_violations if bad else ()
    return tuple(FieldProblem(item.field, item.description) for item in violations)


def _retry_after(status: status_pb2.Status) -> float | None:
    retry = _detail(status, error_details_pb2.RetryInfo)
    return retry.retry_delay.ToTimedelta().total_seconds() if retry else None
