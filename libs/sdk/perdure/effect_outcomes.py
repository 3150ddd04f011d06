"""What a look-up of an effect finds, and the values of effects to and from JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NoReturn

from perdure.handler_errors import EffectInvalid, NotPerformed
from perdure.handlers import RawJson
from perdure.payload import to_payload

MAX_RESULT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Performed:
    """The effect was performed and came to `result`, any value that JSON can hold."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It cannot be told now whether the effect was performed; `note` is for people."""

    note: str = ""


Found = Performed | NotPerformed | Unknown
"""What `reconcile` finds."""


def to_result(value: object) -> bytes:
    """Return what a call came to as JSON, `RawJson` byte for byte.

    Raises EffectInvalid, EFFECT_RESULT_INVALID or EFFECT_RESULT_TOO_LARGE.
    """
    try:
        data = _to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EffectInvalid(
            "EFFECT_RESULT_INVALID", f"the call's result is no JSON value: {error}"
        ) from error
    if len(data) > MAX_RESULT_BYTES:
        raise EffectInvalid(
            "EFFECT_RESULT_TOO_LARGE",
            f"the call's result holds {len(data)} bytes; at most {MAX_RESULT_BYTES} are kept: "
            "return what identifies it",
        )
    return data


def from_result(data: bytes | None) -> Any:
    """Return the value of a result that was kept."""
    return json.loads(data) if data else None


def digest(request: object) -> bytes:
    """Return the digest of what is asked for; empty for None, which is not compared.

    Raises EffectInvalid, EFFECT_REQUEST_INVALID.
    """
    if request is None:
        return b""
    try:
        data = request if isinstance(request, bytes) else _canonical(request)
    except (TypeError, ValueError, RecursionError) as error:
        raise EffectInvalid(
            "EFFECT_REQUEST_INVALID", f"`request` is no JSON value: {error}"
        ) from error
    return hashlib.sha256(data).digest()


def _to_json(value: object) -> bytes:
    if isinstance(value, RawJson):
        json.loads(value.data, parse_constant=_refuse_constant)
        return bytes(value.data)
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("return RawJson(...) for bytes that are JSON already")
    return to_payload(value)


def _canonical(request: object) -> bytes:
    return json.dumps(request, sort_keys=True, allow_nan=False).encode()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
