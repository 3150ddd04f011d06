"""The deadline of the call that is being served, so that calls made for it do not outlive it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

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
    left = remaining()
    if seconds is None or left is None:
        return left if seconds is None else seconds
    return min(seconds, left)


class within:
    """Give the body at most `seconds`, and no more than it had already.

    Raises DeadlineExceeded when the body took longer; a TimeoutError of the body passes unchanged.
    """

    __slots__ = ("_allowed", "_timer", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._allowed = budget(seconds)

    async def __aenter__(self) -> None:
        if self._allowed is None:
            return
        ends_at = asyncio.get_running_loop().time() + self._allowed
        self._token = _ends_at.set(ends_at)
        self._timer = asyncio.timeout_at(ends_at)
        await self._timer.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        if self._allowed is None:
            return
        _ends_at.reset(self._token)
        try:
            await self._timer.__aexit__(*raised)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"not done within {self._allowed:.3g} seconds", reason=Reason.DEADLINE_EXCEEDED
            ) from error
