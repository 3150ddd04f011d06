"""One call of a handler: the input read, the function called, whatever comes of it made an outcome.

A handler may raise anything, `SystemExit` included; that ends its try and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import math
import traceback
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import NoReturn

from perdure import Handler, HandlerContext, HandlerError, RawJson, StepDropped, Unauthorised
from perdure.payload import to_payload
from perdure_runtime.errors import clean_text

from perdure_worker.outcome import (
    Completed,
    Dropped,
    ErrorClass,
    Failed,
    Outcome,
    RefusedConnection,
)

MAX_TRACEBACK_CHARACTERS = 4000
MAX_RETRY_AFTER_SECONDS = 366 * 86400.0
INNERMOST_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Invocation:
    """A handler with the try that it is called for."""

    handler: Handler
    context: HandlerContext

    def run(self) -> Outcome:
        """Call a plain function; never raises."""
        return self._with_cost(self._outcome())

    def _outcome(self) -> Outcome:
        try:
            given = decode_input(self.context.input_bytes)
            return encode_output(self.handler.function(given, self.context))
        except StepDropped as dropped:
            return Dropped(str(dropped))
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; classified
            return classify(error)

    async def run_async(self) -> Outcome:
        """Call a coroutine function; raises nothing but the CancelledError of its being stopped."""
        return self._with_cost(await self._outcome_async())

    def _with_cost(self, outcome: Outcome) -> Outcome:
        micros = self.context.costs.micros
        if micros is None or isinstance(outcome, Dropped):
            return outcome
        return replace(outcome, cost=micros)

    async def _outcome_async(self) -> Outcome:
        try:
            given = decode_input(self.context.input_bytes)
            answer: Awaitable[object] = self.handler.function(given, self.context)
            return encode_output(await answer)
        except StepDropped as dropped:
            return Dropped(str(dropped))
        except asyncio.CancelledError as error:
            if self.context.cancelled.is_set():
                raise
            return classify(error)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; classified
            return classify(error)


def decode_input(data: bytes) -> object:
    """Return the input as Python values with exact integers; None if there is none.

    Raises HandlerError, INPUT_UNREADABLE, for what Python cannot take.
    """
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError) as error:
        raise _Unusable("INPUT_UNREADABLE", f"the input cannot be read: {error}") from error


def encode_output(value: object) -> Completed:
    """Return what a handler returned as JSON.

    Raises HandlerError, OUTPUT_INVALID, for what JSON cannot hold.
    """
    try:
        if isinstance(value, RawJson):
            json.loads(value.data, parse_constant=_refuse_constant)
            return Completed(bytes(value.data))
        if isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("return RawJson(...) for bytes that are JSON already")
        return Completed(to_payload(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _Unusable("OUTPUT_INVALID", f"the output is no JSON value: {error}") from error


def classify(error: BaseException) -> Failed:
    """Return the failure that an exception of a handler stands for."""
    if not isinstance(error, HandlerError):
        return Failed(
            ErrorClass.RETRYABLE, type(error).__name__, _text(error), details=_trace(error)
        )
    return Failed(
        _class(error),
        str(error.code) or type(error).__name__,
        str(error.message),
        details=_details(error.details),
        retry_after=_seconds(error.retry_after),
        refused=_refused(error),
    )


class _Unusable(HandlerError):
    """What goes in or comes out cannot pass between Python and JSON; another try cannot either."""

    error_class = ErrorClass.PERMANENT


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _class(error: HandlerError) -> ErrorClass:
    known = error.error_class in set(ErrorClass)
    return ErrorClass(error.error_class) if known else ErrorClass.RETRYABLE


def _refused(error: HandlerError) -> RefusedConnection | None:
    name = clean_text(str(error.connection)) if isinstance(error, Unauthorised) else ""
    return RefusedConnection(name) if name else None


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
    text = clean_text("".join(lines)[-MAX_TRACEBACK_CHARACTERS:])
    return to_payload({"type": kind, "traceback": text})


def _details(details: object) -> bytes:
    if details is None:
        return b""
    try:
        return to_payload(details)
    except (TypeError, ValueError, RecursionError):
        return to_payload(clean_text(repr(details)))


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return min(max(0.0, float(value)), MAX_RETRY_AFTER_SECONDS)
