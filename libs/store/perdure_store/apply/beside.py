"""Work that is done while something else is waited for, without a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Beside:
    """Does its work at the loop's next turn, when whoever began it waits already."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._failure: Exception | None = None
        self._handle = asyncio.get_running_loop().call_soon(self._do)

    def _do(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised by `end`
            self._failure = error

    def end(self) -> None:
        """Leave the work undone if it was not begun; raise what it raised."""
        self._handle.cancel()
        if self._failure is not None:
            raise self._failure
