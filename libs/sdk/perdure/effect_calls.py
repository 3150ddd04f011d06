"""One effect of a handler, from the wish to the result, in a thread or in an event loop.

The course is written once, as a coroutine. In an event loop it is awaited as any; in a thread
every await of it blocks instead of suspending, so that one `send` runs it to its end.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol, TypeVar

from perdure.cancellation import Cancellation
from perdure.effect_door import (
    BeginAnswer,
    BeginStatus,
    EffectDoor,
    EffectOutcome,
    EffectRequest,
    SettleAnswer,
    SettleStatus,
)
from perdure.effect_outcomes import Performed, Unknown, from_result, to_result
from perdure.handler_errors import EffectInvalid, NotPerformed, Retryable, StepDropped

T = TypeVar("T")

Call = Callable[[str], Any]

_IF_NOT_HEARD = {
    BeginStatus.BEGUN: EffectOutcome.NOT_PERFORMED,
    BeginStatus.LOOK_UP: EffectOutcome.UNKNOWN,
}
"""What is told of an effect whose handler ended before it heard that it may call, or look up."""


class Waiting(Protocol):
    """How a course waits."""

    async def answer(self, of: Future[T]) -> T:
        """Wait for an answer of the door."""

    async def call(self, function: Call, key: str, seconds: float) -> Any:
        """Call a function of the handler, of either kind. Raises TimeoutError, and as it does."""


class InLoop:
    """Waits in an event loop."""

    async def answer(self, of: Future[T]) -> T:
        """Let the loop go on meanwhile."""
        # What was asked is answered also when the handler is cancelled: somebody must hear it.
        return await asyncio.shield(asyncio.wrap_future(of))

    async def call(self, function: Call, key: str, seconds: float) -> Any:
        """Cut an awaitable when its time is up."""
        async with asyncio.timeout(seconds):
            result = function(key)
            return await result if inspect.isawaitable(result) else result


class InThread:
    """Blocks instead of suspending."""

    async def answer(self, of: Future[T]) -> T:
        """Block the thread."""
        return of.result()

    async def call(self, function: Call, key: str, seconds: float) -> Any:
        """Run an awaitable in a loop of its own; a plain function takes as long as it takes."""
        result = function(key)
        return asyncio.run(_timed(result, seconds)) if inspect.isawaitable(result) else result


def is_in_loop() -> bool:
    """Tell whether whoever calls this runs in an event loop, where nothing may block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_blocking(course: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits `InThread` to its end, in this thread."""
    try:
        course.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    course.close()
    raise RuntimeError("a course in a thread was suspended")


@dataclass(frozen=True, slots=True)
class Course:
    """One effect: the wish to make its call, and the handler's functions for it."""

    door: EffectDoor
    waiting: Waiting
    cancelled: Cancellation
    request: EffectRequest
    perform: Call
    reconcile: Call | None
    not_performed: tuple[type[Exception], ...]

    async def run(self) -> Any:
        """Return what the effect came to. Raises as `HandlerContext.effect` does."""
        while True:
            if self.cancelled.is_set():
                raise _stopped()
            attempt = Attempt(self, str(uuid.uuid4()))
            answer = await attempt.begin()
            if answer.status is BeginStatus.SETTLED:
                return _known(self.request.name, answer)
            if answer.status is BeginStatus.LOOK_UP:
                done = await attempt.look_up()
            elif answer.status is BeginStatus.BEGUN:
                done = await attempt.perform()
            else:
                _refuse(answer)
            if done is not None:
                return done.result


@dataclass(slots=True)
class Attempt:
    """One call, or one look-up, of an effect under a token of its own."""

    course: Course
    token: str
    key: str = ""
    expires_at: float = 0.0

    async def begin(self) -> BeginAnswer:
        """Ask to make the call; a handler that is ended meanwhile makes none."""
        course = self.course
        begun = course.door.begin(replace(course.request, token=self.token))
        try:
            answer = await course.waiting.answer(begun)
        except BaseException:
            begun.add_done_callback(self._give_back)
            raise
        self.key, self.expires_at = answer.key, answer.expires_at
        return answer

    def _give_back(self, begun: Future[BeginAnswer]) -> None:
        if begun.cancelled() or begun.exception() is not None:
            return
        answer = begun.result()
        outcome = _IF_NOT_HEARD.get(answer.status)
        if outcome is not None:
            note = "the handler ended before the call"
            self.course.door.settle(answer.key, self.token, outcome, note=note)

    async def perform(self) -> Performed | None:
        """Make the call and tell what became of it; None if it was not made, being too late."""
        if self.course.cancelled.is_set() or self._is_late():
            await self._settle(EffectOutcome.NOT_PERFORMED, note="the call was not made")
            return None
        try:
            result = to_result(await self._call(self.course.perform))
        except self.course.not_performed as error:
            return await self._conclude(EffectOutcome.NOT_PERFORMED, error)
        except Exception as error:  # noqa: BLE001 - a user's function; nobody knows what it did
            return await self._conclude(EffectOutcome.UNKNOWN, error)
        return await self._conclude(EffectOutcome.PERFORMED, None, result)

    def _is_late(self) -> bool:
        # It must be over within its lease: after that another may find nothing done, and call.
        return time.monotonic() + self.course.request.seconds > self.expires_at

    async def look_up(self) -> Performed | None:
        """Find out what became of an earlier call; None if it was not performed."""
        found = await self._found()
        if isinstance(found, Performed):
            return await self._conclude(EffectOutcome.PERFORMED, None, to_result(found.result))
        if isinstance(found, NotPerformed):
            answer = await self._settle(EffectOutcome.NOT_PERFORMED, note=str(found))
            return Performed(from_result(answer.result)) if _is_performed(answer) else None
        unknown = Retryable("EFFECT_UNKNOWN", f"{self.course.request.name}: {found.note}")
        return await self._conclude(EffectOutcome.UNKNOWN, unknown)

    async def _found(self) -> Performed | NotPerformed | Unknown:
        reconcile = self.course.reconcile
        if reconcile is None:
            return Unknown("it cannot be looked up")
        try:
            found = await self._call(reconcile)
            if isinstance(found, Performed):
                to_result(found.result)
        except NotPerformed as error:
            return error
        except Exception as error:  # noqa: BLE001 - a user's function, which found nothing out
            return Unknown(_text(error))
        if isinstance(found, Performed | NotPerformed | Unknown):
            return found
        return Unknown(f"`reconcile` returned {type(found).__name__}, which says nothing")

    async def _call(self, function: Call) -> Any:
        try:
            return await self.course.waiting.call(function, self.key, self.course.request.seconds)
        except Exception:
            raise
        except BaseException as error:
            # The handler is being ended; the answer would not be heard any more.
            self.course.door.settle(self.key, self.token, EffectOutcome.UNKNOWN, note=_text(error))
            raise

    async def _conclude(
        self, outcome: EffectOutcome, error: Exception | None, result: bytes = b""
    ) -> Performed:
        answer = await self._settle(outcome, result, note=_text(error) if error else "")
        if _is_performed(answer):
            return Performed(from_result(answer.result))
        raise error or EffectInvalid("EFFECT_RESULT_INVALID", answer.message)

    async def _settle(
        self, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> SettleAnswer:
        told = self.course.door.settle(self.key, self.token, outcome, result, note)
        answer = await self.course.waiting.answer(told)
        if answer.status is SettleStatus.DROPPED:
            raise StepDropped(f"effect {self.course.request.name}: the step goes on without you")
        return answer


def _is_performed(answer: SettleAnswer) -> bool:
    return answer.status is SettleStatus.PERFORMED


def _known(name: str, answer: BeginAnswer) -> Any:
    if answer.result is None:
        raise EffectInvalid(
            "EFFECT_RESULT_UNKNOWN", f"{name} was performed, but nobody knows what it came to"
        )
    return from_result(answer.result)


def _refuse(answer: BeginAnswer) -> NoReturn:
    if answer.status is BeginStatus.CANCELLED:
        raise _stopped()
    if answer.status is BeginStatus.REFUSED:
        raise EffectInvalid(answer.code, answer.message)
    raise StepDropped(answer.message or "the step goes on without you")


def _stopped() -> Retryable:
    return Retryable("CANCELLED", "the handler was told to stop, so no call was begun")


def _text(error: BaseException) -> str:
    kind = type(error).__name__
    text = str(error)
    return f"{kind}: {text}" if text else kind


async def _timed(awaitable: Any, seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await awaitable
