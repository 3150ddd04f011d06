"""The one exception tree of Perdure: a kind says what a caller may do, a reason says what happened.

    PerdureError
    ├── InvalidArgument      the request can never succeed as it is        INVALID_ARGUMENT
    ├── NotFound             what the request names does not exist         NOT_FOUND
    ├── AlreadyExists        the name is taken by something else           ALREADY_EXISTS
    ├── FailedPrecondition   the state forbids it until something changes  FAILED_PRECONDITION
    ├── Aborted              lost a race; read again, then decide          ABORTED
    ├── RetryableError       (abstract: may carry the wait before the next try)
    │   ├── ResourceExhausted  over a limit; wait, then send again         RESOURCE_EXHAUSTED
    │   └── Unavailable        not now; the same request may be sent again UNAVAILABLE
    ├── PermissionDenied     known caller, not allowed                     PERMISSION_DENIED
    ├── Unauthenticated      unknown caller                                UNAUTHENTICATED
    ├── DeadlineExceeded     the outcome is not known in time              DEADLINE_EXCEEDED
    ├── Unimplemented        the server has no such method                 UNIMPLEMENTED
    └── Internal             a fault of Perdure itself                     INTERNAL

Each kind is one gRPC code. Callers read attributes, never message texts. `reasons` has the table of
reasons, `docs/errors/` a page of each. Texts are cleaned, never refused (R12): an error must always
be storable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from perdure_runtime.reasons import Code as Code
from perdure_runtime.reasons import Reason as Reason

MAX_ERROR_TEXT = 4096
"""Longest error text kept, in characters."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CUT_MARK = "…"


def clean_text(text: str, *, limit: int = MAX_ERROR_TEXT) -> str:
    """Return `text` in a form that every store takes.

    NUL and lone surrogates become U+FFFD; a text beyond `limit` characters is cut and ends in "…".
    """
    kept = text if len(text) <= limit else text[: limit - len(_CUT_MARK)] + _CUT_MARK
    return _UNSTORABLE.sub(_REPLACEMENT, kept)


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One thing wrong with one field: `field` is its path, `description` what to change."""

    field: str
    description: str


class PerdureError(Exception):
    """The root of the tree; only its subclasses are raised.

    `message` is for people, `reason` and `metadata` are for programs. Metadata keys are lower case
    with underscores; values are cleaned as the message is.
    """

    code: ClassVar[Code] = Code.INTERNAL

    def __init__(
        self, message: str, *, reason: Reason, metadata: Mapping[str, str] | None = None
    ) -> None:
        self.message = clean_text(message)
        self.reason = reason
        self.metadata: Mapping[str, str] = MappingProxyType(
            {key: clean_text(value) for key, value in (metadata or {}).items()}
        )
        super().__init__(self.message)


class InvalidArgument(PerdureError):
    """The request can never succeed as it is; `violations` lists everything wrong with it."""

    code = Code.INVALID_ARGUMENT

    def __init__(
        self,
        message: str,
        *,
        reason: Reason = Reason.FIELD_INVALID,
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[FieldViolation] = (),
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata)
        self.violations = tuple(
            FieldViolation(clean_text(v.field), clean_text(v.description)) for v in violations
        )


class NotFound(PerdureError):
    """What the request names does not exist, or not for this org."""

    code = Code.NOT_FOUND


class AlreadyExists(PerdureError):
    """The name is taken by something that differs from what the request asks for."""

    code = Code.ALREADY_EXISTS


class FailedPrecondition(PerdureError):
    """The state forbids the request; sending it again changes nothing until the state changes."""

    code = Code.FAILED_PRECONDITION


class Aborted(PerdureError):
    """A race was lost; read again, then decide again."""

    code = Code.ABORTED


class RetryableError(PerdureError):
    """The kinds that may carry the wait, in seconds, after which to send again."""

    def __init__(
        self,
        message: str,
        *,
        reason: Reason,
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata)
        self.retry_after = retry_after


class ResourceExhausted(RetryableError):
    """A limit is reached; `retry_after` seconds, when given, is the least wait."""

    code = Code.RESOURCE_EXHAUSTED


class Unavailable(RetryableError):
    """Not now; the same request may be sent again, after `retry_after` seconds if given."""

    code = Code.UNAVAILABLE


class PermissionDenied(PerdureError):
    """The caller is known and not allowed."""

    code = Code.PERMISSION_DENIED


class Unauthenticated(PerdureError):
    """The caller is not known."""

    code = Code.UNAUTHENTICATED


class DeadlineExceeded(PerdureError):
    """The answer was not known in time; whether the request took effect is not known either."""

    code = Code.DEADLINE_EXCEEDED


class Unimplemented(PerdureError):
    """The server has no such method."""

    code = Code.UNIMPLEMENTED


class Internal(PerdureError):
    """A fault of Perdure itself."""

    code = Code.INTERNAL


KINDS: tuple[type[PerdureError], ...] = (
    InvalidArgument,
    NotFound,
    AlreadyExists,
    FailedPrecondition,
    Aborted,
    ResourceExhausted,
    Unavailable,
    PermissionDenied,
    Unauthenticated,
    DeadlineExceeded,
    Unimplemented,
    Internal,
)
"""Every kind that is raised, one per gRPC code."""
