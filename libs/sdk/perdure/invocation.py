"""One call of a handler: the input read, the function called, whatever comes of it made an outcome.

A handler may raise anything, `SystemExit` included; that ends its try and nothing else. Whoever
serves handlers, inside a worker or by polling, calls them through this.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import traceback
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NoReturn

from perdure.handler_context import HandlerContext
from perdure.handler_errors import HandlerError, StepDropped, Unauthorised
from perdure.handlers import Handler, RawJson
from perdure.payload import to_payload

MAX_TRACEBACK_CHARACTERS = 4000
MAX_RETRY_AFTER_SECONDS = 366 * 86400.0
INNERMOST_FRAMES = 8

RETRYABLE = "retryable"
ERROR_CLASSES = frozenset({RETRYABLE, "rate_limited", "authorisation", "permanent"})

JSON_SPACE = " \t\n\r"

_DECODER = json.JSONDecoder()

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned; `output` is JSON."""

    output: bytes


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised; `details` is JSON or empty, `retry_after` the seconds it asked for.

    `connection` is the one whose credentials were refused, empty where it named none.
    """

    error_class: str
    code: str
    message: str
    details: bytes = b""
    retry_after: float | None = None
    connection: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """The step goes on without this try, of which nothing is told; `why` is for logs."""

    why: str


Came = Returned | Raised | Left
"""What came of a call."""


def invoke(handler: Handler, context: HandlerContext) -> Came:
    """Call a plain function; never raises."""
    try:
        return encode_output(handler.function(decode_input(context.input_bytes), context))
    except StepDropped as dropped:
        return Left(str(dropped))
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; classified
        return classify(error)


async def invoke_async(handler: Handler, context: HandlerContext) -> Came:
    """Call a coroutine function; raises nothing but the CancelledError of its being stopped."""
    try:
        given = decode_input(context.input_bytes)
        answer: Awaitable[object] = handler.function(given, context)
        return encode_output(await answer)
    except StepDropped as dropped:
        return Left(str(dropped))
    except asyncio.CancelledError as error:
        if context.cancelled.is_set():
            raise
        return classify(error)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything; classified
        return classify(error)


def decode_input(data: bytes) -> object:
    """Return the input as Python values with exact integers; None if there is none.

    Raises HandlerError, INPUT_UNREADABLE, for what Python cannot take.
    """
    try:
        return _read(data) if data else None
    except (ValueError, RecursionError) as error:
        raise _Unusable("INPUT_UNREADABLE", f"the input cannot be read: {error}") from error


def _read(data: bytes) -> object:
    """Return what `json.loads` does, for most inputs in a fraction of its time: they are UTF-8 and
    begin with their value.
    """
    try:
        text = data.decode()
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return json.loads(data)
    return json.loads(data) if text[end:].strip(JSON_SPACE) else value


def encode_output(value: object) -> Returned:
    """Return what a handler returned as JSON.

    Raises HandlerError, OUTPUT_INVALID, for what JSON cannot hold.
    """
    try:
        if isinstance(value, RawJson):
            json.loads(value.data, parse_constant=_refuse_constant)
            return Returned(bytes(value.data))
        if isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("return RawJson(...) for bytes that are JSON already")
        return Returned(to_payload(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _Unusable("OUTPUT_INVALID", f"the output is no JSON value: {error}") from error


def classify(error: BaseException) -> Raised:
    """Return the failure that an exception of a handler stands for."""
    if not isinstance(error, HandlerError):
        return Raised(RETRYABLE, type(error).__name__, _text(error), details=_trace(error))
    return Raised(
        _class(error),
        str(error.code) or type(error).__name__,
        str(error.message),
        details=_details(error.details),
        retry_after=_seconds(error.retry_after),
        connection=_connection(error),
    )


class _Unusable(HandlerError):
    """What goes in or comes out cannot pass between Python and JSON; another try cannot either."""

    error_class = "permanent"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _class(error: HandlerError) -> str:
    return error.error_class if error.error_class in ERROR_CLASSES else RETRYABLE


def _connection(error: HandlerError) -> str:
    return _cleaned(str(error.connection)) if isinstance(error, Unauthorised) else ""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as inner:  # noqa: BLE001 - a __str__ of a user's class; its name must do
        return f"an error whose text cannot be made: {type(inner).__name__}"


def _trace(error: BaseException) -> bytes:
    # The first frame is the call above, which tells a user nothing.
    own = error.__traceback__.tb_next if error.__traceback__ else None
    lines = traceback.format_tb(own, limit=-INNERMOST_FRAMES)
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    text = _cleaned("".join(lines)[-MAX_TRACEBACK_CHARACTERS:])
    return to_payload({"type": kind, "traceback": text})


def _details(details: object) -> bytes:
    if details is None:
        return b""
    try:
        return to_payload(details)
    except (TypeError, ValueError, RecursionError):
        return to_payload(_cleaned(repr(details)))


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return min(max(0.0, float(value)), MAX_RETRY_AFTER_SECONDS)


def _cleaned(text: str) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
