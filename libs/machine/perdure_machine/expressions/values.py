"""JSON bytes to values for CEL, and back; what CEL cannot take is refused by name (R12)."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping

from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_BYTES = 256 * 1024
"""Most JSON that one expression decodes, in bytes."""

MAX_ITEMS = 1_000
"""Longest list or largest map that an expression with a loop is given or answers."""

INT64 = range(-(2**63), 2**63)
"""The integers that CEL holds."""

_DOUBTFUL = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|[0-9]{19}|[eE]\+?[0-9]{3}")
_UNSUPPORTED_TEXT = re.compile("[\0\ud800-\udfff]")


def decode(data: bytes, source: str, *, loops: bool) -> Json:
    """Return the value of JSON `data` for the expression `source`.

    Raises `ExpressionFailed` for integers beyond 64 bit, numbers beyond a double, text with NUL or
    lone surrogates, and, where the expression loops, lists of more than `MAX_ITEMS`.
    """
    try:
        value: Json = json.loads(data)
    except ValueError as error:
        raise _failed(
            ExpressionCode.NUMBER_OUT_OF_RANGE, "an integer is too long", source
        ) from error
    if _DOUBTFUL.search(data) or (loops and data.count(b",") >= MAX_ITEMS):
        _check(value, source, loops)
    return value


def _check(value: Json, source: str, loops: bool) -> None:
    match value:
        case bool() | None:
            return
        case int():
            if value not in INT64:
                raise _failed(
                    ExpressionCode.NUMBER_OUT_OF_RANGE, f"{value} does not fit 64 bit", source
                )
        case float():
            _finite(value, source)
        case str():
            _check_text(value, source)
        case list():
            _check_length(len(value), source, loops)
            for item in value:
                _check(item, source, loops)
        case dict():
            _check_length(len(value), source, loops)
            for key, item in value.items():
                _check_text(key, source)
                _check(item, source, loops)


def _check_text(text: str, source: str) -> None:
    if _UNSUPPORTED_TEXT.search(text):
        raise _failed(
            ExpressionCode.TEXT_NOT_SUPPORTED,
            "a text holds NUL or half of a surrogate pair, which expressions cannot take",
            source,
        )


def _check_length(length: int, source: str, loops: bool) -> None:
    if loops and length > MAX_ITEMS:
        raise _failed(
            ExpressionCode.LIMIT, f"a list of {length} items is too long to loop over", source
        )


def _finite(number: float, source: str) -> float:
    if not math.isfinite(number):
        raise _failed(
            ExpressionCode.NUMBER_OUT_OF_RANGE, "a number is beyond what a double holds", source
        )
    return number


def encode(value: object, source: str) -> bytes:
    """Return CEL's answer as compact JSON; map keys come sorted, as CEL has no order.

    Timestamps become RFC 3339 text in UTC, durations seconds as in `"90s"`. Raises
    `ExpressionFailed` for what JSON has no form for.
    """
    return json.dumps(_plain(value, source), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: object, source: str) -> Json:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _finite(value, source)
        case list():
            return [_plain(item, source) for item in value]
        case Mapping():
            members = {_key(key, source): _plain(item, source) for key, item in value.items()}
            return dict(sorted(members.items()))
        case datetime.datetime():
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.timedelta():
            return _seconds(value)
        case _:
            raise _failed(
                ExpressionCode.TYPE, f"JSON has no form for a {type(value).__name__}", source
            )


def _key(key: object, source: str) -> str:
    if isinstance(key, str):
        return key
    raise _failed(ExpressionCode.TYPE, f"the map key {key!r} is not text", source)


def _seconds(value: datetime.timedelta) -> str:
    microseconds = value // datetime.timedelta(microseconds=1)
    sign = "-" if microseconds < 0 else ""
    whole, rest = divmod(abs(microseconds), 1_000_000)
    return f"{sign}{whole}{f'.{rest:06d}'.rstrip('0') if rest else ''}s"


def _failed(code: ExpressionCode, message: str, source: str) -> ExpressionFailed:
    return ExpressionFailed(code, message, source)
