"""Serves handlers by polling the workers' door, from wherever this process runs.

    import perdure
    from myapp.handlers import handlers          # a perdure.Handlers

    perdure.PollingWorker(handlers, lanes=["scoring"], slots=4).run_until_signalled()

The handlers are those that a worker would import; `ctx.effect` and `ctx.connection` are for
handlers inside a worker, and raise here. Every handler runs in a thread of its own, `async def`
ones in one event loop, and neither can hold up the heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from decimal import Decimal
from pathlib import Path

from perdure_contracts.v1 import worker_service_pb2 as pb

from perdure.address import find_api_key, find_door
from perdure.client_transport import pause_before
from perdure.errors import PerdureApiError
from perdure.handler_context import HandlerContext
from perdure.handlers import Handler, Handlers
from perdure.invocation import RETRYABLE, Came, Left, Raised, Returned, invoke, invoke_async
from perdure.polling_door import PollingDoor, may_be_told_again, spread
from perdure.polling_held import Heartbeats, Held, hold

MAX_TASKS = 100
DRAINING_PAUSE = 0.5
LOOK_SECONDS = 0.2
STOP_SECONDS = 1.0
"""How long handlers that were told to end may take before their tasks are handed back."""

_MICROS = Decimal(1_000_000)
_logger = logging.getLogger("perdure.polling")


class PollingWorker:
    """Serves `handlers` for tasks of `lanes`, at most `slots` at once, until it is stopped.

    `address` is that of the workers' door; without it and `api_key` they are looked for as the
    client's are, the address in PERDURE_HANDLERS_ADDRESS. When it stops, what runs has
    `drain_seconds` to end; what has not by then is handed back. Several polls' worth of processes
    may serve one lane.
    """

    def __init__(
        self,
        handlers: Handlers | Iterable[Handlers],
        *,
        address: str | None = None,
        api_key: str | None = None,
        lanes: Sequence[str] = ("io",),
        slots: int = 8,
        worker_id: str | None = None,
        drain_seconds: float = 20.0,
    ) -> None:
        sets = [handlers] if isinstance(handlers, Handlers) else handlers
        self._handlers: dict[str, Handler] = {one.name: one for found in sets for one in found}
        place = find_door(address, os.environ, Path.cwd())
        key = find_api_key(api_key, place, os.environ, Path.cwd())
        self._door = PollingDoor(place, key, worker_id or _name(), lanes)
        self._heartbeats = Heartbeats(self._door)
        self._drain_seconds = drain_seconds
        self._slots = slots
        self._changed = threading.Condition()
        self._running = 0
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        # A signal's handler may put into this queue whatever the thread that it interrupts holds.
        self._orders: queue.SimpleQueue[PerdureApiError | None] = queue.SimpleQueue()

    def run_until_signalled(self) -> None:
        """Serve until SIGTERM or SIGINT; called in the main thread. Raises as `run` does."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        self.run()

    def run(self) -> None:
        """Serve until `stop`, once. Raises PerdureApiError where the key or a lane is refused."""
        self._loop = asyncio.new_event_loop()
        polls = threading.Thread(target=self._poll, name="perdure-polls", daemon=True)
        coroutines = threading.Thread(
            target=_serve, args=(self._loop,), name="perdure-coroutines", daemon=True
        )
        for thread in (coroutines, polls):
            thread.start()
        self._heartbeats.start()
        refused = self._order()
        try:
            self._drain()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            # A handler that blocks its loop, or a thread, is left behind.
            coroutines.join(STOP_SECONDS)
            self._heartbeats.stop()
            self._door.close()
        if refused is not None:
            raise refused

    def _order(self) -> PerdureApiError | None:
        """Wait until it is to end; return why, None where it was told to."""
        while True:
            try:
                return self._orders.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                # A signal that reached another thread is handled when this one looks up.
                continue

    def stop(self) -> None:
        """Have `run` end; from any thread, or a signal's handler."""
        self._orders.put(None)

    def _poll(self) -> None:
        failures = 0
        while (room := self._room()) > 0:
            try:
                answer = self._door.poll(room)
            except PerdureApiError as error:
                if self._is_stopping:
                    return
                if not may_be_told_again(error):
                    self._orders.put(error)
                    return
                failures += 1
                _logger.warning("a poll failed: %s", error)
                time.sleep(pause_before(failures, error.retry_after))
                continue
            failures = 0
            if self._is_stopping:
                self._hand_back([task.task_token for task in answer.tasks])
                return
            self._begin(answer.tasks)
            if answer.draining:
                time.sleep(spread(DRAINING_PAUSE))

    def _room(self) -> int:
        """Return how many tasks may be asked for, once there is room; 0 when it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._running < self._slots)
            return 0 if self._is_stopping else min(self._slots - self._running, MAX_TASKS)

    def _begin(self, tasks: Iterable[pb.Task]) -> None:
        for task in tasks:
            held = hold(task)
            self._heartbeats.add(held)
            with self._changed:
                self._running += 1
            name = f"perdure-handler-{task.handler}"
            threading.Thread(target=self._work, args=(held,), name=name, daemon=True).start()

    def _work(self, held: Held) -> None:
        following: Held | None = held
        try:
            while following is not None:
                following = self._end(following, self._call(following))
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _call(self, held: Held) -> tuple[Came, str]:
        """Return what came of the handler, and what it spent."""
        handler = self._handlers.get(held.task.handler)
        if handler is None:
            return self._unknown(held.task.handler), ""
        context = _context(held)
        if not handler.is_async or self._loop is None:
            return invoke(handler, context), _cost(context)
        running = asyncio.run_coroutine_threadsafe(invoke_async(handler, context), self._loop)
        held.interrupt = running.cancel
        if held.is_lost:
            running.cancel()
        try:
            return running.result(), _cost(context)
        except CancelledError:
            return Left("the task is another's"), ""

    def _end(self, held: Held, outcome: tuple[Came, str]) -> Held | None:
        """Tell what came of a task; return the run's next one if it came with the answer."""
        came, cost = outcome
        try:
            if not held.is_lost and not isinstance(came, Left):
                return self._tell(held, came, cost)
        except PerdureApiError as error:
            _logger.warning(
                "the outcome of step %d of run %s does not count: %s",
                held.task.step,
                held.task.run_id,
                error,
            )
        finally:
            self._heartbeats.drop(held)
        return None

    def _tell(self, held: Held, came: Returned | Raised, cost: str) -> Held | None:
        if isinstance(came, Raised):
            self._door.fail(_failure(held.token, came, cost))
            return None
        try:
            following = self._door.complete(
                held.token, came.output, cost, takes_next=not self._is_stopping
            )
        except PerdureApiError as error:
            if not error.reason.startswith("PAYLOAD_"):
                raise
            # What is refused for good is told without it, so that the step does not wait for it.
            text = f"the result was refused: {error.message}"
            self._door.fail(_failure(held.token, Raised("permanent", error.reason, text), cost))
            return None
        if following is None:
            return None
        found = hold(following)
        self._heartbeats.add(found)
        return found

    def _unknown(self, name: str) -> Raised:
        known = ", ".join(sorted(self._handlers)) or "none"
        return Raised(
            RETRYABLE,
            "HANDLER_UNKNOWN",
            f"this program has no handler {name!r}; it has: {known}. Whoever polls a lane serves "
            "all of it: give the handler to this program, or its nodes another lane.",
        )

    def _drain(self) -> None:
        """Poll no more, let what runs end, and hand the rest back."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._door.cancel_poll()
        if self._is_idle_within(self._drain_seconds):
            return
        left = self._heartbeats.all()
        for held in left:
            held.cancelled.set()
        if self._is_idle_within(STOP_SECONDS):
            return
        left = self._heartbeats.all()
        for held in left:
            held.lose()
        self._hand_back([held.token for held in left])

    def _hand_back(self, tokens: Sequence[str]) -> None:
        if not tokens:
            return
        try:
            self._door.release(tokens)
        except PerdureApiError as error:
            _logger.warning("%d tasks were not handed back: %s", len(tokens), error)

    def _is_idle_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, seconds)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
    finally:
        loop.close()


def _context(held: Held) -> HandlerContext:
    task = held.task
    return HandlerContext(
        run_id=task.run_id,
        workflow=task.workflow,
        workflow_version=task.workflow_version,
        node=task.node,
        scope=task.scope,
        step=task.step,
        attempt=task.attempt,
        key_prefix=task.key_prefix,
        input_bytes=task.input,
        deadline=held.deadline,
        cancelled=held.cancelled,
        logger=logging.getLogger(f"perdure.handler.{task.handler}"),
        traceparent=task.traceparent,
    )


def _cost(context: HandlerContext) -> str:
    micros = context.costs.micros
    return "" if micros is None else f"{Decimal(micros) / _MICROS:f}"


def _failure(token: str, raised: Raised, cost: str) -> pb.FailTaskRequest:
    request = pb.FailTaskRequest(
        task_token=token,
        code=raised.code[:120],
        message=raised.message[:4096],
        details=raised.details if len(raised.details) <= 16 * 1024 else b"",
        cost=cost,
    )
    # The field's name is a keyword of Python.
    setattr(request, "class", raised.error_class)
    if raised.retry_after is not None:
        request.retry_after.FromMilliseconds(round(raised.retry_after * 1000))
    return request


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
