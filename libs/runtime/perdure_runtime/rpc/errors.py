"""The exception tree as `google.rpc.Status` and back: one mapping for servers and clients.

A status carries `ErrorInfo` (reason, domain, metadata) and, where they apply, `BadRequest` and
`RetryInfo`. It travels in a trailer whose size clients limit, some at 8 KiB, so it is kept small:
texts are cut and violations beyond the room are counted, not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    BadRequest,
    ErrorInfo,
    RetryInfo,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from perdure_runtime.errors import (
    KINDS,
    Code,
    FieldViolation,
    InvalidArgument,
    PerdureError,
    Reason,
    RetryableError,
    clean_text,
)

DOMAIN = "perdure.dev"
DETAILS_KEY = "grpc-status-details-bin"

MAX_STATUS_BYTES = 4500
MAX_STATUS_TEXT = 500
MAX_METADATA_TEXT = 200
MAX_VIOLATION_TEXT = 300
OMITTED = "violations_omitted"
"""Metadata key: how many violations had no room."""

_BY_CODE = {kind.code: kind for kind in KINDS}

_PLAIN: Mapping[grpc.StatusCode, tuple[Code, Reason]] = MappingProxyType(
    {
        grpc.StatusCode.INVALID_ARGUMENT: (Code.INVALID_ARGUMENT, Reason.FIELD_INVALID),
        grpc.StatusCode.OUT_OF_RANGE: (Code.INVALID_ARGUMENT, Reason.FIELD_INVALID),
        grpc.StatusCode.ABORTED: (Code.ABORTED, Reason.RETRY),
        grpc.StatusCode.CANCELLED: (Code.ABORTED, Reason.CALL_CANCELLED),
        grpc.StatusCode.RESOURCE_EXHAUSTED: (Code.RESOURCE_EXHAUSTED, Reason.RATE_LIMITED),
        grpc.StatusCode.UNAVAILABLE: (Code.UNAVAILABLE, Reason.PEER_UNAVAILABLE),
        grpc.StatusCode.PERMISSION_DENIED: (Code.PERMISSION_DENIED, Reason.PERMISSION_MISSING),
        grpc.StatusCode.UNAUTHENTICATED: (Code.UNAUTHENTICATED, Reason.CREDENTIAL_INVALID),
        grpc.StatusCode.DEADLINE_EXCEEDED: (Code.DEADLINE_EXCEEDED, Reason.DEADLINE_EXCEEDED),
        grpc.StatusCode.UNIMPLEMENTED: (Code.UNIMPLEMENTED, Reason.METHOD_UNKNOWN),
    }
)
"""What a status without our details means, as transports and proxies send it."""


def to_status(error: PerdureError, *, advise: bool = False) -> Status:
    """Return the status that tells a client of `error`.

    With `advise` it says how long to wait wherever waiting helps, as the table of reasons has it
    where the error itself does not say.
    """
    info = ErrorInfo(reason=str(error.reason), domain=DOMAIN, metadata=_short(error.metadata))
    status = Status(
        code=grpc.StatusCode[error.code].value[0],
        message=clean_text(error.message, limit=MAX_STATUS_TEXT),
    )
    retry = _retry_info(wait_of(error, advise=advise))
    room = MAX_STATUS_BYTES - status.ByteSize() - info.ByteSize() - 200
    bad_request, omitted = _bad_request(error, room)
    if omitted:
        info.metadata[OMITTED] = str(omitted)
    for detail in (info, bad_request, retry):
        if detail is not None:
            status.details.add().Pack(detail)
    return status


def wait_of(error: PerdureError, *, advise: bool) -> float | None:
    """Return how many seconds a client is asked to wait, None if it is not asked to."""
    asked = error.retry_after if isinstance(error, RetryableError) else None
    return error.reason.wait if asked is None and advise else asked


def from_call_error(error: grpc.aio.AioRpcError) -> PerdureError:
    """Return the exception that the server raised, or that a status without details stands for."""
    trailer = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    if isinstance(trailer, bytes):
        try:
            return from_status(Status.FromString(trailer), error.code())
        except DecodeError:
            pass
    return _from_plain(error.code(), error.details() or "")


def from_status(status: Status, code: grpc.StatusCode) -> PerdureError:
    """Return the exception that `to_status` was given; unknown reasons keep their kind."""
    info, bad_request, retry = ErrorInfo(), BadRequest(), RetryInfo()
    has_retry = False
    for detail in status.details:
        has_retry |= detail.Unpack(retry)
        _ = detail.Unpack(info) or detail.Unpack(bad_request)
    if info.domain != DOMAIN:
        return _from_plain(code, status.message)
    violations = [FieldViolation(v.field, v.description) for v in bad_request.field_violations]
    wait = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9 if has_retry else None
    return _make(code, status.message, info, violations, wait)


def _make(
    code: grpc.StatusCode,
    message: str,
    info: ErrorInfo,
    violations: Iterable[FieldViolation],
    wait: float | None,
) -> PerdureError:
    fallback_code, fallback_reason = _PLAIN.get(code, (Code.INTERNAL, Reason.INTERNAL))
    kind = _BY_CODE[Code(code.name)] if code.name in Code.__members__ else _BY_CODE[fallback_code]
    known = info.reason in Reason.__members__
    reason = Reason(info.reason) if known else fallback_reason
    metadata = dict(info.metadata) | ({} if known else {"reason": info.reason})
    if issubclass(kind, InvalidArgument):
        return kind(message, reason=reason, metadata=metadata, violations=violations)
    if issubclass(kind, RetryableError):
        return kind(message, reason=reason, metadata=metadata, retry_after=wait)
    return kind(message, reason=reason, metadata=metadata)


def _from_plain(code: grpc.StatusCode, details: str) -> PerdureError:
    # The transport answers RESOURCE_EXHAUSTED both for a rate and for a size, and only its text
    # tells them apart; taking a size for a rate would send the same message for ever (F091).
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return InvalidArgument(details, reason=Reason.PAYLOAD_TOO_LARGE)
    known, reason = _PLAIN.get(code, (Code.INTERNAL, Reason.INTERNAL))
    return _BY_CODE[known](details or code.name, reason=reason)


def _short(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: clean_text(text, limit=MAX_METADATA_TEXT) for key, text in metadata.items()}


def _retry_info(wait: float | None) -> RetryInfo | None:
    if wait is None:
        return None
    info = RetryInfo()
    info.retry_delay.FromNanoseconds(round(wait * 1e9))
    return info


def _bad_request(error: PerdureError, room: int) -> tuple[BadRequest | None, int]:
    if not isinstance(error, InvalidArgument) or not error.violations:
        return None, 0
    detail = BadRequest()
    for index, violation in enumerate(error.violations):
        detail.field_violations.add(
            field=clean_text(violation.field, limit=MAX_VIOLATION_TEXT),
            description=clean_text(violation.description, limit=MAX_VIOLATION_TEXT),
        )
        if detail.ByteSize() > room:
            del detail.field_violations[-1]
            return detail, len(error.violations) - index
    return detail, 0
