"""The deadline of the call that is being served, so that calls made for it do not outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from perdure_runtime.errors import DeadlineExceeded, Reason

_ends_at: ContextVar[float | None] = ContextVar("perdure_deadline", default=None)


def remaining() -> float | None:
    """Seconds that the current call has left, at least 0; None when it has no deadline."""
    ends_at = _ends_at.get()
    if ends_at is None:
        return None
    return max(0.0, ends_at - asyncio.get_running_loop().time())


def budget(seconds: float | None) -> float | None:
    """The lesser of `seconds` and what the current call has left; None when neither bounds."""
    bounds = [bound for bound in (seconds, remaining()) if bound is not None]
    return min(bounds, default=None)


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    """Give the body at most `seconds`, and no more than it had already.

    Raises DeadlineExceeded when the body took longer; a TimeoutError of the body passes unchanged.
    """
    allowed = budget(seconds)
    if allowed is None:
        yield
        return
    token = _ends_at.set(asyncio.get_running_loop().time() + allowed)
    try:
        async with asyncio.timeout(allowed) as timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise DeadlineExceeded(
            f"not done within {allowed:.3g} seconds", reason=Reason.DEADLINE_EXCEEDED
        ) from error
    finally:
        _ends_at.reset(token)
