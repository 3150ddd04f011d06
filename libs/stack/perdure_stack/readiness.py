"""Waits until a started process answers, or says why it never will."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from perdure_stack.errors import StackError
from perdure_stack.process import Child

PROBE_INTERVAL = 0.02  # seconds
PROBE_TIMEOUT = 2.0  # seconds


async def wait_until_ready(
    owner: str, child: Child, probe: Callable[[], Awaitable[bool]], timeout: float
) -> None:
    """Return once ``probe`` is true.

    Raises StackError, with the last lines of the log, if the child ends or stays unready for
    ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not await probe():
        if child.returncode is not None:
            reason = f"it ended with status {child.returncode}"
            raise StackError.failed(owner, reason, child.log, child.log_tail())
        if time.monotonic() > deadline:
            reason = f"it was not ready after {timeout:g} s"
            raise StackError.failed(owner, reason, child.log, child.log_tail())
        await asyncio.sleep(PROBE_INTERVAL)


async def run_to_success(owner: str, child: Child, timeout: float) -> None:
    """Run a program to its end. Raises StackError if it fails or takes ``timeout`` seconds."""
    child.start()
    try:
        code = await child.wait(timeout)
    except TimeoutError:
        reason = f"it was not done after {timeout:g} s"
    else:
        if code == 0:
            return
        reason = f"it ended with status {code}"
    finally:
        if child.is_running:
            await child.end(())
    raise StackError.failed(owner, reason, child.log, child.log_tail())


async def answers_ok(url: str) -> bool:
    """Tell whether a GET of ``url``, plain HTTP, is answered by status 200 in good time."""
    try:
        return await asyncio.wait_for(_status(url), PROBE_TIMEOUT) == b"200"
    except (OSError, TimeoutError, EOFError):
        return False


async def _status(url: str) -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        line = await reader.readuntil(b"\r\n")
        return line.split()[1]
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
