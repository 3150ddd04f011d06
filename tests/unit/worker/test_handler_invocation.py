import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import perdure
import pytest
from perdure.invocation import decode_input, encode_output
from perdure_worker.executors.invocation import Invocation
from perdure_worker.outcome import Completed, ErrorClass, Failed, Outcome


def context(data: bytes = b"null") -> perdure.HandlerContext:
    return perdure.HandlerContext(
        run_id="run",
        workflow="flow",
        workflow_version=1,
        node="node",
        scope="",
        step=1,
        attempt=1,
        key_prefix="run/node",
        input_bytes=data,
        deadline=None,
        cancelled=perdure.Cancellation(),
        logger=logging.getLogger("test"),
    )


def call(function: Callable[[Any, Any], Any], data: bytes = b"null") -> Outcome:
    return Invocation(perdure.Handler("name", function), context(data)).run()


def fail(error: BaseException) -> Failed:
    def raising(given: Any, ctx: Any) -> None:
        raise error

    outcome = call(raising)
    assert isinstance(outcome, Failed)
    return outcome


def test_no_input_is_none() -> None:
    assert decode_input(b"") is None


def test_r12_integers_are_exact() -> None:
    assert decode_input(b"18446744073709551617") == 2**64 + 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": [1, "\xc3\xa4"]}',
        b' {"a": 1}\r\n\t ',
        b"NaN",
        b'"\xed\xa0\x80"',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": "\u00e4"}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-16-le"),
        "12".encode("utf-32-be"),
        b"1\x00",
    ],
)
def test_an_input_is_read_as_json_reads_it(data: bytes) -> None:
    assert repr(decode_input(data)) == repr(json.loads(data))


@pytest.mark.parametrize("data", [b"1 2", b"{}x", b"1\xc2\xa0", b"1\x0b", b" "])
def test_what_json_does_not_read_is_refused(data: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(data)
    assert isinstance(call(lambda given, ctx: given, data), Failed)


@pytest.mark.parametrize("data", [b"1" + b"0" * 5000, b"[" * 100_000, b"\xff"])
def test_an_input_that_python_cannot_take_is_a_named_failure(data: bytes) -> None:
    outcome = call(lambda given, ctx: given, data)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.error_class) == ("INPUT_UNREADABLE", ErrorClass.PERMANENT)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {1, 2},
        b"bytes",
        object(),
        perdure.RawJson(b"{"),
        perdure.RawJson(b"NaN"),
        perdure.RawJson(b"\xff"),
    ],
)
def test_an_output_that_json_cannot_hold_is_a_named_failure(value: object) -> None:
    outcome = call(lambda given, ctx: value)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.error_class) == ("OUTPUT_INVALID", ErrorClass.PERMANENT)


def test_an_output_that_holds_itself_is_a_named_failure() -> None:
    endless: list[Any] = []
    endless.append(endless)
    outcome = call(lambda given, ctx: endless)
    assert isinstance(outcome, Failed)
    assert outcome.code == "OUTPUT_INVALID"


def test_r12_a_lone_surrogate_is_escaped() -> None:
    assert json.loads(encode_output("\ud800").output) == "\ud800"


def test_r12_raw_json_is_not_touched() -> None:
    data = b'{ "a" : 1.10, "a":"\\u0000" }'
    assert call(lambda given, ctx: perdure.RawJson(data)) == Completed(data)


def test_an_exception_whose_text_cannot_be_made_is_still_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    outcome = fail(Mute())
    assert outcome.code == "Mute"
    assert "RuntimeError" in outcome.message


def test_details_that_json_cannot_hold_become_text() -> None:
    outcome = fail(perdure.Retryable("CODE", details={1, 2}))
    assert json.loads(outcome.details) == "{1, 2}"


@pytest.mark.parametrize(
    ("asked", "told"),
    [(2, 2.0), (-1, 0.0), (float("nan"), None), (float("inf"), 366 * 86400.0), ("soon", None)],
)
def test_a_wait_that_makes_no_sense_does_no_harm(asked: Any, told: float | None) -> None:
    assert fail(perdure.Retryable("CODE", retry_after=asked)).retry_after == told


def test_an_unknown_class_counts_as_retryable() -> None:
    class Odd(perdure.HandlerError):
        error_class = "odd"

    assert fail(Odd("CODE")).error_class is ErrorClass.RETRYABLE


async def test_a_handler_that_cancels_itself_failed() -> None:
    async def leaving(given: Any, ctx: Any) -> None:
        raise asyncio.CancelledError

    outcome = await Invocation(perdure.Handler("name", leaving), context()).run_async()
    assert isinstance(outcome, Failed)
    assert outcome.code == "CancelledError"


async def test_a_handler_that_was_asked_to_stop_is_no_failure() -> None:
    async def leaving(given: Any, ctx: perdure.HandlerContext) -> None:
        ctx.cancelled.set()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Invocation(perdure.Handler("name", leaving), context()).run_async()
