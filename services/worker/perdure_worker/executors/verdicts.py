"""What is known after an outside call: performed, not performed or unknown; and what to do next.

One table for every way in which a call ends, so that no executor judges for itself (design 8, 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from perdure_worker.outcome import Effect, ErrorClass

REQUEST_TIMEOUT, CONFLICT, TOO_MANY_REQUESTS = 408, 409, 429
NOT_AUTHORISED = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the effect, what retries make of it, and the code of the error."""

    effect: Effect
    error_class: ErrorClass
    code: str


class Break(StrEnum):
    """How a call can end without an answer; the value says it to people."""

    UNSENDABLE = "the request cannot be sent"
    ADDRESS_REFUSED = "the address may not be called"
    NAME_UNRESOLVED = "the name has no address"
    CONNECT_FAILED = "the connection was refused, or not there in time"
    TLS_FAILED = "no secure connection came about"
    TIMEOUT_BEFORE = "the time was over before anything was sent"
    BROKEN_AFTER = "the connection broke after something was sent"
    TIMEOUT_AFTER = "the time was over after something was sent"


_NO, _UNKNOWN = Effect.NOT_PERFORMED, Effect.UNKNOWN
_AGAIN, _NEVER = ErrorClass.RETRYABLE, ErrorClass.PERMANENT

BREAKS: Mapping[Break, Verdict] = MappingProxyType(
    {
        Break.UNSENDABLE: Verdict(_NO, _NEVER, "REQUEST_INVALID"),
        Break.ADDRESS_REFUSED: Verdict(_NO, _NEVER, "ADDRESS_REFUSED"),
        Break.NAME_UNRESOLVED: Verdict(_NO, _AGAIN, "NAME_UNRESOLVED"),
        Break.CONNECT_FAILED: Verdict(_NO, _AGAIN, "CONNECT_FAILED"),
        Break.TLS_FAILED: Verdict(_NO, _AGAIN, "TLS_FAILED"),
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
