"""The one table of error reasons: code, whether waiting helps, meaning; `docs/errors/` shows it."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType


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
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"

    @property
    def http(self) -> int:
        """The HTTP status that goes with the code, as `google/rpc/code.proto` names it."""
        return _HTTP[self]


_HTTP = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: 400,
        Code.FAILED_PRECONDITION: 400,
        Code.UNAUTHENTICATED: 401,
        Code.PERMISSION_DENIED: 403,
        Code.NOT_FOUND: 404,
        Code.ABORTED: 409,
        Code.ALREADY_EXISTS: 409,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.INTERNAL: 500,
        Code.UNIMPLEMENTED: 501,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE_EXCEEDED: 504,
    }
)


class Reason(StrEnum):
    """What happened, stable over releases: the one table of them, which `docs/errors` shows.

    `code` is the gRPC code that it is answered with. `wait` is how many seconds to wait before the
    same request may succeed, where the answer says nothing else; None: waiting changes nothing.
    `doc` says in one sentence what it means.
    """

    code: Code
    wait: float | None
    doc: str

    def __new__(
        cls, value: str, code: Code = Code.INTERNAL, wait: float | None = None, doc: str = ""
    ) -> Reason:
        """Make a member whose value is the name that travels."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.code, member.wait, member.doc = code, wait, doc
        return member

    FIELD_INVALID = (
        "FIELD_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "A field of the request has a value that is not allowed.",
    )
    DEFINITION_INVALID = (
        "DEFINITION_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "The workflow definition has errors.",
    )
    EXPRESSION_INVALID = (
        "EXPRESSION_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "An expression cannot be compiled, or cannot take the value it was given.",
    )
    PAYLOAD_TOO_LARGE = (
        "PAYLOAD_TOO_LARGE",
        Code.INVALID_ARGUMENT,
        None,
        "A payload is larger than the limit.",
    )
    PAYLOAD_INVALID = (
        "PAYLOAD_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "A payload is not a valid JSON document.",
    )
    MESSAGE_MALFORMED = (
        "MESSAGE_MALFORMED",
        Code.INVALID_ARGUMENT,
        None,
        "The request's bytes are not a message that its method takes.",
    )
    PAGE_TOKEN_INVALID = (
        "PAGE_TOKEN_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "The page token was not made by this list, or was made for other filters.",
    )
    PORT_UNAVAILABLE = (
        "PORT_UNAVAILABLE",
        Code.FAILED_PRECONDITION,
        None,
        "A process cannot listen on the address that it is told to listen on.",
    )
    CONFIG_INVALID = (
        "CONFIG_INVALID",
        Code.FAILED_PRECONDITION,
        None,
        "The configuration of a process has errors.",
    )
    LANE_UNKNOWN = (
        "LANE_UNKNOWN",
        Code.FAILED_PRECONDITION,
        None,
        "The definition names a lane that no operator has made.",
    )
    LANE_NOT_FOUND = ("LANE_NOT_FOUND", Code.NOT_FOUND, None, "There is no lane with this name.")
    LANE_IN_USE = (
        "LANE_IN_USE",
        Code.FAILED_PRECONDITION,
        None,
        "The lane is there from the start, or a published workflow uses it.",
    )
    ORG_NOT_FOUND = ("ORG_NOT_FOUND", Code.NOT_FOUND, None, "There is no org with this name.")
    RUN_NOT_FOUND = ("RUN_NOT_FOUND", Code.NOT_FOUND, None, "The org has no run with this id.")
    WORKFLOW_NOT_FOUND = (
        "WORKFLOW_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has published no workflow with this name and version.",
    )
    STEP_NOT_FOUND = ("STEP_NOT_FOUND", Code.NOT_FOUND, None, "The run has no step with this id.")
    METHOD_UNKNOWN = (
        "METHOD_UNKNOWN",
        Code.UNIMPLEMENTED,
        None,
        "The server does not know the method that was called.",
    )
    RUN_ALREADY_STARTED = (
        "RUN_ALREADY_STARTED",
        Code.ALREADY_EXISTS,
        None,
        "The start key belongs to a run that was started by a different request.",
    )
    JOB_NOT_FOUND = ("JOB_NOT_FOUND", Code.NOT_FOUND, None, "The org has no job with this id.")
    JOB_TYPE_NOT_FOUND = (
        "JOB_TYPE_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no job type with this name and version.",
    )
    JOB_ALREADY_ENQUEUED = (
        "JOB_ALREADY_ENQUEUED",
        Code.ALREADY_EXISTS,
        None,
        "The idempotency key belongs to a job that was enqueued by a different request.",
    )
    EXCLUSIVE_KEY_HELD = (
        "EXCLUSIVE_KEY_HELD",
        Code.ALREADY_EXISTS,
        5.0,
        "Another run holds the exclusive key, and the workflow does not wait for it.",
    )
    VERSION_EXISTS = (
        "VERSION_EXISTS",
        Code.ALREADY_EXISTS,
        None,
        "This version of the workflow was published with other content.",
    )
    INBOX_FULL = (
        "INBOX_FULL",
        Code.RESOURCE_EXHAUSTED,
        5.0,
        "Too many signals wait for the run, or by the key, that nobody has taken.",
    )
    CALLBACK_INVALID = (
        "CALLBACK_INVALID",
        Code.NOT_FOUND,
        None,
        "No run of the org has made this callback token.",
    )
    CALLBACK_SPENT = (
        "CALLBACK_SPENT",
        Code.FAILED_PRECONDITION,
        None,
        "The wait that the callback is for has its answer, or is over.",
    )
    MIGRATION_NOT_FOUND = (
        "MIGRATION_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no migration with this id.",
    )
    MIGRATION_INVALID = (
        "MIGRATION_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "A migration maps nodes in a way that its two versions do not allow.",
    )
    SUBJECT_KEY_MISSING = (
        "SUBJECT_KEY_MISSING",
        Code.FAILED_PRECONDITION,
        None,
        "This installation has no key under which the subjects of work are hashed.",
    )
    RUN_CLOSED = (
        "RUN_CLOSED",
        Code.FAILED_PRECONDITION,
        None,
        "The run has ended and takes no more commands.",
    )
    CONNECTION_NOT_FOUND = (
        "CONNECTION_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no connection of this name.",
    )
    DEAD_LETTER_NOT_FOUND = (
        "DEAD_LETTER_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The run is no dead letter.",
    )
    EFFECT_UNRESOLVED = (
        "EFFECT_UNRESOLVED",
        Code.FAILED_PRECONDITION,
        None,
        "An outside call was performed, or nobody knows, so it is not repeated.",
    )
    EFFECT_MISMATCH = (
        "EFFECT_MISMATCH",
        Code.FAILED_PRECONDITION,
        None,
        "An effect of this name was begun before with another request.",
    )
    EFFECT_NOT_FOUND = (
        "EFFECT_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The run has no effect with this key.",
    )
    EFFECT_DECIDED = (
        "EFFECT_DECIDED",
        Code.FAILED_PRECONDITION,
        None,
        "The effect waits for nobody's decision any more.",
    )
    EFFECT_OPEN = (
        "EFFECT_OPEN",
        Code.FAILED_PRECONDITION,
        10.0,
        "A call of the effect may still be open, or will be looked up or repeated.",
    )
    EFFECT_KEY_EXPIRED = (
        "EFFECT_KEY_EXPIRED",
        Code.FAILED_PRECONDITION,
        None,
        "The provider may keep the effect's key no longer, so it would not recognise a repeat.",
    )
    RUN_COMPENSATED = (
        "RUN_COMPENSATED",
        Code.FAILED_PRECONDITION,
        None,
        "Completed steps of the run were compensated, so it cannot go on.",
    )
    RUN_ERASED = (
        "RUN_ERASED",
        Code.FAILED_PRECONDITION,
        None,
        "The payloads of the run were erased because its subject was.",
    )
    BUDGET_NOT_FOUND = (
        "BUDGET_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no budget of this name.",
    )
    ERASURE_NOT_FOUND = (
        "ERASURE_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no erasure with this id.",
    )
    PARENT_TOLD = (
        "PARENT_TOLD",
        Code.FAILED_PRECONDITION,
        None,
        "The parent of the run was told how it ended, and may have acted on that.",
    )
    MONTH_CLOSED = (
        "MONTH_CLOSED",
        Code.FAILED_PRECONDITION,
        None,
        "The run is old and about to be removed with its month.",
    )
    LEASE_LOST = (
        "LEASE_LOST",
        Code.FAILED_PRECONDITION,
        None,
        "The lease on the step ended or passed to another worker.",
    )
    TASK_TOKEN_INVALID = (
        "TASK_TOKEN_INVALID",
        Code.INVALID_ARGUMENT,
        None,
        "The token names no task of the org, or its time is over.",
    )
    TRANSITION_REFUSED = (
        "TRANSITION_REFUSED",
        Code.FAILED_PRECONDITION,
        None,
        "The event is not possible in the state that the run or step is in.",
    )
    SCHEMA_MISMATCH = (
        "SCHEMA_MISMATCH",
        Code.FAILED_PRECONDITION,
        5.0,
        "The database schema is older or newer than this program can use.",
    )
    RETRY = (
        "RETRY",
        Code.ABORTED,
        0.1,
        "Another change came first; the same request may succeed now.",
    )
    RUN_BUSY = (
        "RUN_BUSY",
        Code.UNAVAILABLE,
        0.5,
        "So much is done to the run just now that this was not reached in time.",
    )
    CALL_CANCELLED = (
        "CALL_CANCELLED",
        Code.ABORTED,
        0.1,
        "The call was cancelled before it was answered.",
    )
    RATE_LIMITED = (
        "RATE_LIMITED",
        Code.RESOURCE_EXHAUSTED,
        1.0,
        "The caller is over a rate or concurrency limit.",
    )
    DRAINING = (
        "DRAINING",
        Code.UNAVAILABLE,
        0.1,
        "The process is shutting down and takes no new work.",
    )
    PEER_UNAVAILABLE = (
        "PEER_UNAVAILABLE",
        Code.UNAVAILABLE,
        0.2,
        "Another service could not be reached.",
    )
    STORE_UNAVAILABLE = (
        "STORE_UNAVAILABLE",
        Code.UNAVAILABLE,
        0.5,
        "The database could not be used just now.",
    )
    STREAMS_UNAVAILABLE = (
        "STREAMS_UNAVAILABLE",
        Code.UNAVAILABLE,
        0.5,
        "Redis could not be used just now.",
    )
    FAIL_POINT = (
        "FAIL_POINT",
        Code.UNAVAILABLE,
        0.1,
        "A test made this operation fail on purpose.",
    )
    PERMISSION_MISSING = (
        "PERMISSION_MISSING",
        Code.PERMISSION_DENIED,
        None,
        "The caller's key does not allow this operation.",
    )
    KEY_MISSING = ("KEY_MISSING", Code.UNAUTHENTICATED, None, "The call carries no API key.")
    KEY_INVALID = (
        "KEY_INVALID",
        Code.UNAUTHENTICATED,
        None,
        "The call carries an API key that nobody was given.",
    )
    KEY_EXPIRED = (
        "KEY_EXPIRED",
        Code.UNAUTHENTICATED,
        None,
        "The API key, or the secret that was replaced, has expired.",
    )
    KEY_REVOKED = ("KEY_REVOKED", Code.UNAUTHENTICATED, None, "The API key was revoked.")
    KEY_EXISTS = (
        "KEY_EXISTS",
        Code.ALREADY_EXISTS,
        None,
        "Another key of the org has the name, or is its first already.",
    )
    KEY_NOT_FOUND = (
        "KEY_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no key of this name that is not revoked.",
    )
    MEMBER_NOT_FOUND = (
        "MEMBER_NOT_FOUND",
        Code.NOT_FOUND,
        None,
        "The org has no member of this name.",
    )
    CREDENTIAL_INVALID = (
        "CREDENTIAL_INVALID",
        Code.UNAUTHENTICATED,
        None,
        "The call carries a token that is not accepted here, or something before Perdure refused.",
    )
    DEADLINE_EXCEEDED = (
        "DEADLINE_EXCEEDED",
        Code.DEADLINE_EXCEEDED,
        1.0,
        "The call's deadline passed before the answer was known.",
    )
    INTERNAL = (
        "INTERNAL",
        Code.INTERNAL,
        None,
        "Perdure met a fault of its own; its log has the details.",
    )
