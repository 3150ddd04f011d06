"""Waits until no process works in a data directory any more.

A server whose parent was killed shuts down by itself, and for that moment its files are not yet
anybody else's. Both embedded servers work in their data directory, which is how they are found.
"""

import asyncio
import time
from pathlib import Path

import psutil

from perdure_stack.errors import StackError

LEAVE_TIMEOUT = 10.0  # seconds that a server of a dead parent gets to shut down
LEAVE_INTERVAL = 0.02  # seconds


async def wait_until_vacant(owner: str, data: Path) -> None:
    """Return once no process works in ``data``. Raises StackError when one stays."""
    deadline = time.monotonic() + LEAVE_TIMEOUT
    while processes := await asyncio.to_thread(_processes_in, data):
        if time.monotonic() > deadline:
            raise StackError(
                f"another {owner} uses the data directory",
                f"{data}, process {processes[0]}",
                f"stop what started it, or end it (kill {processes[0]}), and start again",
            )
        await asyncio.sleep(LEAVE_INTERVAL)


def _processes_in(data: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(data):
                found.append(process.pid)
        except psutil.Error:
            continue
    return sorted(found)
