"""The `perdure` command as a process, as people and scripts call it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """Return what was printed as the value that it is."""
        return json.loads(self.out)


Command = Callable[..., Awaitable[Printed]]
"""Runs the command with arguments, and `stdin` as its input."""


def command_at(address: str, folder: Path, *, api_key: str) -> Command:
    """Return what runs `perdure ...` in a folder, with address and key in its environment."""

    async def run(*arguments: str, stdin: bytes = b"") -> Printed:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "perdure",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PERDURE_ADDRESS": address, "PERDURE_API_KEY": api_key},
            cwd=folder,
        )
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Printed(process.returncode, out.decode(), err.decode())

    return run
