"""Threads for `def` handlers, and a thread with an event loop for `async def` handlers.

They are apart from the worker's own loop, so that a handler that blocks stops no renewal (P8), and
they are daemons, so that a handler that hangs cannot keep a drained worker from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import uvloop

from perdure_worker.executors.mailbox import Mailbox

ResultT = TypeVar("ResultT")

THREAD_NAME = "perdure-handler"


class Running(Protocol[ResultT]):
    """Work that goes on in another thread."""

    ended: asyncio.Future[ResultT | None]
    """Done when nothing of the work runs any more; None if it was stopped before its end."""

    async def wait(self) -> ResultT | None:
        """Return what came of it, as `ended` does; being cancelled stops it and waits for that."""

    def stop(self) -> None:
        """Ask for an early end."""


class _Work(ABC, Generic[ResultT]):
    def __init__(self, home: Mailbox) -> None:
        self._home = home
        self._context = contextvars.copy_context()
        self._is_over = False
        self.ended: asyncio.Future[ResultT | None] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def stop(self) -> None:
        """Ask for an early end."""

    async def wait(self) -> ResultT | None:
        """Return what came of it; being cancelled stops it and waits for that."""
        try:
            return await self.ended
        except asyncio.CancelledError:
            self.stop()
            if not self._is_over:
                # The future went with the cancellation. To shield each would cost more than to
                # make another for the few that are cancelled.
                self.ended = asyncio.get_running_loop().create_future()
                await asyncio.wait((self.ended,))
            raise

    def end(self, result: ResultT | None) -> None:
        """Tell the loop that waits; called from any thread."""
        self._home.post(partial(self._resolve, result))

    def _resolve(self, result: ResultT | None) -> None:
        self._is_over = True
        if not self.ended.done():
            self.ended.set_result(result)


class _ThreadCall(_Work[ResultT]):
    def __init__(self, home: Mailbox, function: Callable[[], ResultT]) -> None:
        super().__init__(home)
        self._function = function
        self._claim = threading.Lock()

    def run(self) -> None:
        """Call the function, unless the work was stopped before."""
        if self._claim.acquire(blocking=False):
            result: ResultT | None = None
            try:
                result = self._context.run(self._function)
            finally:
                self.end(result)

    def stop(self) -> None:
        """Drop the call if it has not begun; a thread cannot be made to stop."""
        if self._claim.acquire(blocking=False):
            self.end(None)


class HandlerThreads:
    """A fixed number of threads, begun at once; calls beyond it wait their turn."""

    def __init__(self, threads: int) -> None:
        self._home = Mailbox(asyncio.get_running_loop())
        self._count = threads
        self._calls: queue.SimpleQueue[_ThreadCall[Any] | None] = queue.SimpleQueue()
        for number in range(threads):
            name = f"{THREAD_NAME}-{number}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def stop(self) -> None:
        """Let each thread end after its present call; it is not waited for."""
        for _ in range(self._count):
            self._calls.put(None)

    def begin(self, function: Callable[[], ResultT]) -> Running[ResultT]:
        """Call `function`, which must not raise, in a thread, with the caller's contextvars."""
        call = _ThreadCall(self._home, function)
        self._calls.put(call)
        return call

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()


class _LoopTask(_Work[ResultT]):
    def __init__(self, home: Mailbox, there: Mailbox, work: Coroutine[Any, Any, ResultT]) -> None:
        super().__init__(home)
        self._there = there
        self._work = work
        self._task: asyncio.Task[ResultT] | None = None
        there.post(self._begin)

    def stop(self) -> None:
        """Cancel the task."""
        # Posted calls keep their order, so the task is there by then.
        self._there.post(self._cancel)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._work, context=self._context)
        self._task.add_done_callback(self._finished)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finished(self, task: asyncio.Task[ResultT]) -> None:
        self.end(None if task.cancelled() or task.exception() else task.result())


class HandlerLoop:
    """One thread with an event loop that coroutines of handlers share, begun at once."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._home = Mailbox(asyncio.get_running_loop())
        self._there = Mailbox(self._loop)
        self._thread = threading.Thread(target=self._serve, name=f"{THREAD_NAME}-loop", daemon=True)
        self._thread.start()

    async def stop(self, timeout: float) -> None:
        """Cancel what still runs and end the thread; gives up after `timeout` seconds."""
        self._there.post(self._loop.stop)
        await asyncio.to_thread(self._thread.join, timeout)

    def begin(self, work: Coroutine[Any, Any, ResultT]) -> Running[ResultT]:
        """Run a coroutine that must not raise, with the caller's contextvars."""
        return _LoopTask(self._home, self._there, work)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_cancel_others())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
