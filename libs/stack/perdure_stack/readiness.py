"""Waits until a started process answers, or says why it never will."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from perdure_stack.errors import StackError
from perdure_stack.process import ChildProcess

PROBE_INTERVAL = 0.02  # seconds


async def wait_until_ready(
    owner: str, child: ChildProcess, probe: Callable[[], Awaitable[bool]], timeout: float
) -> None:
    """Return once ``probe`` is true.

    Raises StackError, with the last lines of the log, if the child ends or stays unready for
    ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not await probe():
        if child.returncode is not None:
            reason = f"it ended with status {child.returncode}"
            raise StackError.did_not_start(owner, reason, child.log, child.log_tail())
        if time.monotonic() > deadline:
            reason = f"it was not ready after {timeout:g} s"
            raise StackError.did_not_start(owner, reason, child.log, child.log_tail())
        await asyncio.sleep(PROBE_INTERVAL)
