"""What is known after an outside call: performed, not performed or unknown; and what to do next.

One table for every way in which a call ends, so that no executor judges for itself (design 8, 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import grpc

from perdure_worker.outcome import Effect, ErrorClass, Failed

REQUEST_TIMEOUT, CONFLICT, TOO_MANY_REQUESTS = 408, 409, 429
NOT_AUTHORISED = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the effect, what retries make of it, and the code of the error."""

    effect: Effect
    error_class: ErrorClass
    code: str


class CallFailed(Exception):
    """A call without an answer that can be used, and what is known of it."""

    def __init__(
        self, verdict: Verdict, message: str, *, details: bytes = b"", wait: float | None = None
    ) -> None:
        super().__init__(message)
        self._verdict, self._details, self._wait = verdict, details, wait

    @property
    def failure(self) -> Failed:
        """The failure of the try."""
        return failed(self._verdict, str(self), details=self._details, retry_after=self._wait)


def failed(
    verdict: Verdict, message: str, *, details: bytes = b"", retry_after: float | None = None
) -> Failed:
    """Return the failure that a verdict is."""
    return Failed(
        verdict.error_class, verdict.code, message, details, retry_after, effect=verdict.effect
    )


class Break(StrEnum):
    """How a call can end without an answer; the value says it to people."""

    UNSENDABLE = "the request cannot be sent"
    ADDRESS_REFUSED = "the address may not be called"
    NAME_UNRESOLVED = "the name has no address"
    CONNECT_FAILED = "the connection was refused, or not there in time"
    TLS_FAILED = "no secure connection came about"
    METHOD_UNKNOWN = "the method is not known"
    UNDESCRIBED = "the server did not say what its methods take"
    TIMEOUT_BEFORE = "the time was over before anything was sent"
    BROKEN_AFTER = "the connection broke after something was sent"
    TIMEOUT_AFTER = "the time was over after something was sent"


GRPC_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""The statuses that are a definite no. ALREADY_EXISTS is none: an earlier try may have made it."""

_GRPC_CLASSES: Mapping[grpc.StatusCode, ErrorClass] = {
    grpc.StatusCode.PERMISSION_DENIED: ErrorClass.AUTHORISATION,
    grpc.StatusCode.UNAUTHENTICATED: ErrorClass.AUTHORISATION,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ErrorClass.RATE_LIMITED,
}

_NO, _UNKNOWN = Effect.NOT_PERFORMED, Effect.UNKNOWN
_AGAIN, _NEVER = ErrorClass.RETRYABLE, ErrorClass.PERMANENT

BREAKS: Mapping[Break, Verdict] = MappingProxyType(
    {
        Break.UNSENDABLE: Verdict(_NO, _NEVER, "REQUEST_INVALID"),
        Break.ADDRESS_REFUSED: Verdict(_NO, _NEVER, "ADDRESS_REFUSED"),
        Break.NAME_UNRESOLVED: Verdict(_NO, _AGAIN, "NAME_UNRESOLVED"),
        Break.CONNECT_FAILED: Verdict(_NO, _AGAIN, "CONNECT_FAILED"),
        Break.TLS_FAILED: Verdict(_NO, _AGAIN, "TLS_FAILED"),
        Break.METHOD_UNKNOWN: Verdict(_NO, _NEVER, "METHOD_UNKNOWN"),
        Break.UNDESCRIBED: Verdict(_NO, _AGAIN, "REFLECTION_FAILED"),
        Break.TIMEOUT_BEFORE: Verdict(_NO, _AGAIN, "TIMEOUT"),
        Break.BROKEN_AFTER: Verdict(_UNKNOWN, _AGAIN, "CONNECTION_BROKEN"),
        Break.TIMEOUT_AFTER: Verdict(_UNKNOWN, _AGAIN, "TIMEOUT"),
    }
)


def of_break(broke: Break) -> Verdict:
    """Return what is known of a call that was not answered."""
    return BREAKS[broke]


def of_status(status: int) -> Verdict:
    """Return what an HTTP status says that the definition does not accept."""
    return Verdict(effect_of(status), _class_of(status), f"HTTP_{status}")


def of_grpc(code: grpc.StatusCode) -> Verdict:
    """Return what a gRPC status that is not OK says."""
    effect = Effect.NOT_PERFORMED if code in GRPC_REFUSALS else Effect.UNKNOWN
    return Verdict(effect, _grpc_class(code), f"GRPC_{code.name}")


def _grpc_class(code: grpc.StatusCode) -> ErrorClass:
    if code in _GRPC_CLASSES:
        return _GRPC_CLASSES[code]
    is_never = code in GRPC_REFUSALS or code is grpc.StatusCode.ALREADY_EXISTS
    return ErrorClass.PERMANENT if is_never else ErrorClass.RETRYABLE


NOT_FOUND = of_grpc(grpc.StatusCode.NOT_FOUND)
"""By this a method that looks a call up says that there was none."""


def of_unusable(status: int, code: str) -> Verdict:
    """Return what is known when the answer's status is accepted and its body is of no use.

    The provider gave its word with the status; that nobody can take the body does not take it
    back, and asking again would bring the same body.
    """
    return Verdict(effect_of(status, accepted=True), _NEVER, code)


def effect_of(status: int, *, accepted: bool = False) -> Effect:
    """Return what a status says of the effect; one that the definition accepts is a yes."""
    if accepted or 200 <= status <= 299:
        return Effect.PERFORMED
    if 400 <= status <= 499 and status not in (REQUEST_TIMEOUT, CONFLICT):
        return Effect.NOT_PERFORMED
    return Effect.UNKNOWN


def _class_of(status: int) -> ErrorClass:
    if status == TOO_MANY_REQUESTS:
        return ErrorClass.RATE_LIMITED
    if status in NOT_AUTHORISED:
        return ErrorClass.AUTHORISATION
    # A conflict is how providers say that a call under the same key is still running (F116).
    if status in (REQUEST_TIMEOUT, CONFLICT) or status >= 500:
        return ErrorClass.RETRYABLE
    return ErrorClass.PERMANENT
