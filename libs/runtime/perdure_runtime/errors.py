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
    └── Internal             a fault of Perdure itself                     INTERNAL

Each kind is one gRPC code. Callers read attributes, never message texts. Every reason has a page
in `docs/errors/`. Texts are cleaned, never refused (R12): an error must always be storable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

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


class Reason(StrEnum):
    """What happened, stable over releases; `doc` says it in one sentence."""

    doc: str

    def __new__(cls, value: str, doc: str = "") -> Reason:
        """Make a member whose value is the name that travels and whose `doc` explains it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member

    FIELD_INVALID = ("FIELD_INVALID", "A field of the request has a value that is not allowed.")
    DEFINITION_INVALID = ("DEFINITION_INVALID", "The workflow definition has errors.")
    EXPRESSION_INVALID = (
        "EXPRESSION_INVALID",
        "An expression cannot be compiled, or cannot take the value it was given.",
    )
    PAYLOAD_TOO_LARGE = ("PAYLOAD_TOO_LARGE", "A payload is larger than the limit.")
    PAYLOAD_INVALID = ("PAYLOAD_INVALID", "A payload is not a valid JSON document.")
    PAGE_TOKEN_INVALID = (
        "PAGE_TOKEN_INVALID",
        "The page token was not made by this list, or was made for other filters.",
    )
    PORT_UNAVAILABLE = (
        "PORT_UNAVAILABLE",
        "A process cannot listen on the address that it is told to listen on.",
    )
    CONFIG_INVALID = ("CONFIG_INVALID", "The configuration of a process has errors.")
    LANE_UNKNOWN = ("LANE_UNKNOWN", "The definition names a lane that no operator has made.")
    LANE_NOT_FOUND = ("LANE_NOT_FOUND", "There is no lane with this name.")
    LANE_IN_USE = (
        "LANE_IN_USE",
        "The lane is there from the start, or a published workflow uses it.",
    )
    ORG_NOT_FOUND = ("ORG_NOT_FOUND", "There is no org with this name.")
    RUN_NOT_FOUND = ("RUN_NOT_FOUND", "The org has no run with this id.")
    WORKFLOW_NOT_FOUND = (
        "WORKFLOW_NOT_FOUND",
        "The org has published no workflow with this name and version.",
    )
    STEP_NOT_FOUND = ("STEP_NOT_FOUND", "The run has no step with this id.")
    METHOD_UNKNOWN = ("METHOD_UNKNOWN", "The server does not know the method that was called.")
    RUN_ALREADY_STARTED = (
        "RUN_ALREADY_STARTED",
        "The start key belongs to a run that was started by a different request.",
    )
    JOB_NOT_FOUND = ("JOB_NOT_FOUND", "The org has no job with this id.")
    JOB_TYPE_NOT_FOUND = (
        "JOB_TYPE_NOT_FOUND",
        "The org has no job type with this name and version.",
    )
    JOB_ALREADY_ENQUEUED = (
        "JOB_ALREADY_ENQUEUED",
        "The idempotency key belongs to a job that was enqueued by a different request.",
    )
    EXCLUSIVE_KEY_HELD = (
        "EXCLUSIVE_KEY_HELD",
        "Another run holds the exclusive key, and the workflow does not wait for it.",
    )
    VERSION_EXISTS = (
        "VERSION_EXISTS",
        "This version of the workflow was published with other content.",
    )
    INBOX_FULL = (
        "INBOX_FULL",
        "Too many signals wait for the run, or by the key, that nobody has taken.",
    )
    CALLBACK_INVALID = (
        "CALLBACK_INVALID",
        "No run of the org has made this callback token.",
    )
    CALLBACK_SPENT = (
        "CALLBACK_SPENT",
        "The wait that the callback is for has its answer, or is over.",
    )
    MIGRATION_NOT_FOUND = ("MIGRATION_NOT_FOUND", "The org has no migration with this id.")
    MIGRATION_INVALID = (
        "MIGRATION_INVALID",
        "A migration maps nodes in a way that its two versions do not allow.",
    )
    SUBJECT_KEY_MISSING = (
        "SUBJECT_KEY_MISSING",
        "This installation has no key under which the subjects of work are hashed.",
    )
    RUN_CLOSED = ("RUN_CLOSED", "The run has ended and takes no more commands.")
    CONNECTION_NOT_FOUND = ("CONNECTION_NOT_FOUND", "The org has no connection of this name.")
    DEAD_LETTER_NOT_FOUND = ("DEAD_LETTER_NOT_FOUND", "The run is no dead letter.")
    EFFECT_UNRESOLVED = (
        "EFFECT_UNRESOLVED",
        "An outside call was performed, or nobody knows, so it is not repeated.",
    )
    EFFECT_MISMATCH = (
        "EFFECT_MISMATCH",
        "An effect of this name was begun before with another request.",
    )
    EFFECT_NOT_FOUND = (
        "EFFECT_NOT_FOUND",
        "The run has no effect with this key.",
    )
    EFFECT_DECIDED = (
        "EFFECT_DECIDED",
        "The effect waits for nobody's decision any more.",
    )
    EFFECT_OPEN = (
        "EFFECT_OPEN",
        "A call of the effect may still be open, or will be looked up or repeated.",
    )
    EFFECT_KEY_EXPIRED = (
        "EFFECT_KEY_EXPIRED",
        "The provider may keep the effect's key no longer, so it would not recognise a repeat.",
    )
    RUN_COMPENSATED = (
        "RUN_COMPENSATED",
        "Completed steps of the run were compensated, so it cannot go on.",
    )
    RUN_ERASED = (
        "RUN_ERASED",
        "The payloads of the run were erased because its subject was.",
    )
    BUDGET_NOT_FOUND = ("BUDGET_NOT_FOUND", "The org has no budget of this name.")
    ERASURE_NOT_FOUND = ("ERASURE_NOT_FOUND", "The org has no erasure with this id.")
    PARENT_TOLD = (
        "PARENT_TOLD",
        "The parent of the run was told how it ended, and may have acted on that.",
    )
    MONTH_CLOSED = ("MONTH_CLOSED", "The run is old and about to be removed with its month.")
    LEASE_LOST = ("LEASE_LOST", "The lease on the step ended or passed to another worker.")
    TRANSITION_REFUSED = (
        "TRANSITION_REFUSED",
        "The event is not possible in the state that the run or step is in.",
    )
    SCHEMA_MISMATCH = (
        "SCHEMA_MISMATCH",
        "The database schema is older or newer than this program can use.",
    )
    RETRY = ("RETRY", "Another change came first; the same request may succeed now.")
    CALL_CANCELLED = ("CALL_CANCELLED", "The call was cancelled before it was answered.")
    RATE_LIMITED = ("RATE_LIMITED", "The caller is over a rate or concurrency limit.")
    DRAINING = ("DRAINING", "The process is shutting down and takes no new work.")
    PEER_UNAVAILABLE = ("PEER_UNAVAILABLE", "Another service could not be reached.")
    STORE_UNAVAILABLE = ("STORE_UNAVAILABLE", "The database could not be used just now.")
    STREAMS_UNAVAILABLE = ("STREAMS_UNAVAILABLE", "Redis could not be used just now.")
    FAIL_POINT = ("FAIL_POINT", "A test made this operation fail on purpose.")
    PERMISSION_MISSING = ("PERMISSION_MISSING", "The caller's key does not allow this operation.")
    KEY_MISSING = ("KEY_MISSING", "The call carries no API key.")
    KEY_INVALID = ("KEY_INVALID", "The call carries an API key that nobody was given.")
    KEY_EXPIRED = ("KEY_EXPIRED", "The API key, or the secret that was replaced, has expired.")
    KEY_REVOKED = ("KEY_REVOKED", "The API key was revoked.")
    CREDENTIAL_INVALID = (
        "CREDENTIAL_INVALID",
        "The call carries a token that is not accepted here, or something before Perdure refused.",
    )
    DEADLINE_EXCEEDED = (
        "DEADLINE_EXCEEDED",
        "The call's deadline passed before the answer was known.",
    )
    INTERNAL = ("INTERNAL", "Perdure met a fault of its own; its log has the details.")


class Code(StrEnum):
    """The gRPC status codes that Perdure answers with, by their gRPC names."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    INTERNAL = "INTERNAL"


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
    Internal,
)
"""Every kind that is raised, one per gRPC code."""
