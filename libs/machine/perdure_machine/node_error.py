"""Errors of nodes as JSON, and the codes that the engine itself gives."""

from __future__ import annotations

import json
from enum import StrEnum

import msgspec
from perdure_runtime.errors import InvalidArgument, PerdureError, clean_text

from perdure_machine.expressions import ExpressionFailed
from perdure_machine.view import NodeError

MAX_MESSAGE = 4096
"""Longest message kept of an error, in characters."""

MAX_DETAILS = 64 * 1024
"""Largest details kept of an error, in bytes; larger ones are dropped (F093)."""

DEADLINE = "DEADLINE"
"""The code of a node, and of a run, that did not end in the time it had."""


class ErrorClass(StrEnum):
    """What an error means for retries (design section 11)."""

    RETRYABLE = "retryable"
    RATE_LIMITED = "rate_limited"
    AUTHORISATION = "authorisation"
    PERMANENT = "permanent"
    POISON = "poison"


class _Encoded(msgspec.Struct, frozen=True, omit_defaults=True):
    category: str = msgspec.field(name="class")
    code: str
    message: str
    # Not `| None`: msgspec then reads nothing but null.
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node: str = ""


ERASED_ERROR = NodeError(ErrorClass.PERMANENT, "ERASED", "the payloads of the run were erased")
"""Stands where an error of a run was that was erased."""

_decoder = msgspec.json.Decoder(_Encoded)


def encode_error(error: NodeError) -> bytes:
    """Return the error as JSON; details stay byte for byte."""
    details = msgspec.Raw(error.details) if error.details else msgspec.UNSET
    return msgspec.json.encode(
        _Encoded(error.category, error.code, error.message, details, error.node)
    )


def decode_error(data: bytes) -> NodeError:
    """Read what `encode_error` wrote."""
    error = _decoder.decode(data)
    details = None if isinstance(error.details, msgspec.UnsetType) else bytes(error.details)
    return NodeError(error.category, error.code, error.message, details, error.node)


def reported_error(
    category: str, code: str, message: str, details: bytes | None, node: str = ""
) -> NodeError:
    """Make an error of what an executor sent: cleaned and cut, never refused (R12, F100).

    An unknown class counts as retryable; details that are no JSON become a JSON string.
    """
    known = category if category in set(ErrorClass) else ErrorClass.RETRYABLE
    return NodeError(
        category=str(known),
        code=clean_text(code or "ERROR", limit=120),
        message=clean_text(message, limit=MAX_MESSAGE),
        details=_clean_details(details),
        node=node,
    )


def refusal_error(refusal: PerdureError) -> NodeError:
    """Make the error of a node that asked for something that is refused, with its reason."""
    violations = refusal.violations if isinstance(refusal, InvalidArgument) else ()
    fields = [{"field": one.field, "description": one.description} for one in violations]
    details = json.dumps({"violations": fields}).encode() if fields else None
    return reported_error(ErrorClass.PERMANENT, refusal.reason, refusal.message, details)


def expression_error(failure: ExpressionFailed, node: str) -> NodeError:
    """Make the error of a node whose expression has no value."""
    return NodeError(
        ErrorClass.PERMANENT,
        str(failure.expression_code),
        clean_text(f"{failure.source}: {failure.message}", limit=MAX_MESSAGE),
        node=node,
    )


def _clean_details(details: bytes | None) -> bytes | None:
    if not details or len(details) > MAX_DETAILS:
        return None
    try:
        msgspec.json.decode(details)
    except (msgspec.DecodeError, RecursionError):
        return json.dumps(clean_text(details.decode("utf-8", "replace"))).encode()
    return details
