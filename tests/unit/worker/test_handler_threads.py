import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest
from perdure_worker.executors.handler_threads import HandlerLoop, HandlerThreads
from perdure_worker.executors.mailbox import Mailbox

about: ContextVar[str] = ContextVar("about", default="nothing")


@pytest.fixture
async def threads() -> AsyncIterator[HandlerThreads]:
    threads = HandlerThreads(1)
    yield threads
    threads.stop()


@pytest.fixture
async def loop() -> AsyncIterator[HandlerLoop]:
    loop = HandlerLoop()
    yield loop
    await loop.stop(10.0)


async def test_a_call_runs_in_a_thread_with_the_callers_contextvars(
    threads: HandlerThreads,
) -> None:
    about.set("this run")
    running = threads.begin(lambda: (about.get(), threading.current_thread().daemon))
    assert await running.ended == ("this run", True)


async def test_a_call_that_waits_its_turn_can_be_dropped_and_one_that_runs_cannot(
    threads: HandlerThreads,
) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def first() -> str:
        begun.set()
        let_go.wait()
        return "ran"

    running, waiting = threads.begin(first), threads.begin(lambda: "never")
    assert await asyncio.to_thread(begun.wait, 10)
    waiting.stop()
    running.stop()
    assert await waiting.ended is None
    let_go.set()
    assert await running.ended == "ran"


async def test_a_coroutine_runs_in_the_other_loop_with_the_callers_contextvars(
    loop: HandlerLoop,
) -> None:
    async def work() -> tuple[str, bool]:
        return about.get(), asyncio.get_running_loop() is home

    home = asyncio.get_running_loop()
    about.set("this run")
    assert await loop.begin(work()).ended == ("this run", False)


async def test_a_coroutine_that_is_stopped_ends_after_its_clean_up(loop: HandlerLoop) -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def work() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "never"

    running = loop.begin(work())
    assert await asyncio.to_thread(begun.wait, 10)
    running.stop()
    assert await running.ended is None
    assert cleaned.is_set()


async def test_a_coroutine_that_is_stopped_before_it_began_ends_too(loop: HandlerLoop) -> None:
    async def work() -> str:
        return "never"

    running = loop.begin(work())
    running.stop()
    assert await running.ended in (None, "never")


async def test_who_waits_is_cancelled_only_when_nothing_of_the_call_runs_any_more(
    threads: HandlerThreads,
) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        let_go.wait()

    waiting = asyncio.create_task(threads.begin(hang).wait())
    assert await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    await asyncio.wait((waiting,), timeout=0.05)
    assert not waiting.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_waits_can_be_cancelled_in_the_turn_in_which_the_call_ends(
    loop: HandlerLoop,
) -> None:
    async def work() -> str:
        return "ran"

    running = loop.begin(work())
    waiting = asyncio.create_task(running.wait())
    running.ended.add_done_callback(lambda _: waiting.cancel())
    await asyncio.wait((waiting,), timeout=10)
    assert waiting.cancelled()


async def test_posted_calls_keep_their_order_and_none_is_lost_between_threads() -> None:
    mailbox, seen, done = (
        Mailbox(asyncio.get_running_loop()),
        list[tuple[int, int]](),
        asyncio.Event(),
    )

    def post(thread: int) -> None:
        for number in range(2000):
            mailbox.post(lambda number=number: note(thread, number))  # type: ignore[misc]

    def note(thread: int, number: int) -> None:
        seen.append((thread, number))
        if len(seen) == 8000:
            done.set()

    posters = [threading.Thread(target=post, args=(thread,)) for thread in range(4)]
    for poster in posters:
        poster.start()
    async with asyncio.timeout(30):
        await done.wait()
    for thread in range(4):
        assert [number for who, number in seen if who == thread] == list(range(2000))


def test_a_post_to_a_loop_that_has_ended_does_nothing() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    Mailbox(ended).post(lambda: None)
