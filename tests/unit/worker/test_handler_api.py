import asyncio
import functools
import threading
from typing import Any, cast

import perdure
import pytest


async def plain_async(given: Any, ctx: perdure.HandlerContext) -> None:
    return None


def plain(given: Any, ctx: perdure.HandlerContext) -> None:
    return None


def only_input(given: Any) -> Any:
    return given


class Callable:
    async def __call__(self, given: Any, ctx: perdure.HandlerContext) -> None:
        return None


def test_a_decorated_function_stays_what_it_is() -> None:
    handlers = perdure.Handlers()
    assert handlers.handler("plain")(plain) is plain
    assert [handler.name for handler in handlers] == ["plain"]


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (plain, False),
        (plain_async, True),
        (functools.partial(plain_async), True),
        (Callable(), True),
    ],
)
def test_how_a_handler_is_called_follows_from_the_function(function: Any, is_async: bool) -> None:
    assert perdure.Handler("name", function).is_async is is_async


def test_a_name_that_is_taken_is_refused() -> None:
    handlers = perdure.Handlers()
    handlers.add("name", plain)
    with pytest.raises(ValueError, match="registered twice"):
        handlers.add("name", plain_async)
    assert len(handlers) == 1


@pytest.mark.parametrize("name", ["", " name", "name\n"])
def test_a_name_that_nobody_could_write_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        perdure.Handlers().add(name, plain)


def test_a_function_that_cannot_take_input_and_context_is_refused() -> None:
    with pytest.raises(TypeError, match=r"f\(input, ctx\)"):
        perdure.Handlers().add("name", cast(Any, only_input))


def test_two_sets_share_nothing() -> None:
    one, other = perdure.Handlers(), perdure.Handlers()
    one.add("name", plain)
    assert list(other) == []


def test_an_error_says_code_and_message() -> None:
    error = perdure.Permanent("NO_SUCH_CUSTOMER", "unknown address", details={"n": 1})
    assert str(error) == "NO_SUCH_CUSTOMER: unknown address"
    assert (error.error_class, error.retry_after) == ("permanent", None)
    assert perdure.RateLimited("SLOW", retry_after=3).retry_after == 3


async def test_a_cancellation_wakes_threads_and_coroutines_of_any_loop() -> None:
    cancelled = perdure.Cancellation()
    threads = asyncio.gather(
        asyncio.to_thread(cancelled.wait, 10),
        asyncio.to_thread(asyncio.run, cancelled.wait_async()),
    )
    here = asyncio.create_task(cancelled.wait_async())
    await asyncio.wait((here,), timeout=0)
    assert not cancelled.is_set()
    threading.Thread(target=cancelled.set).start()
    async with asyncio.timeout(10):
        assert list(await threads) == [True, None]
        await here
        await cancelled.wait_async()
