"""How a peer's process is asked: one line of JSON for a question, one for the answer.

    {"do": "alone", "steps": 50}               -> {"ms": [1.2, ...]}, from step to step
    {"do": "chains", "runs": 64, "steps": 50}  -> {}, once all have ended
    {"do": "jobs", "count": 1000}              -> {}, once the result of each is stored

It says `{}` first, when it is ready. What it cannot do ends it, with a traceback in its log.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TextIO

LOOK_EVERY = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Given:
    """What a process is told: servers, a folder of its own, the place of downloaded files.

    `concurrency` is how many runs, or jobs, are at work at once; `processes` and `pool` are of
    those peers alone that start workers themselves.
    """

    database_url: str
    redis_url: str
    directory: str
    files: str
    concurrency: int
    processes: int = 1
    pool: str = ""


class Node(Protocol):
    """A peer that runs, worker and client in one."""

    async def alone(self, steps: int) -> Sequence[float]:
        """Run one workflow and return when each of its steps had ended, in seconds."""

    async def chains(self, runs: int, steps: int) -> None:
        """Run so many workflows."""

    async def jobs(self, count: int) -> None:
        """Enqueue so many jobs and wait until all have been done."""


def serve(open_node: Callable[[Given], AbstractAsyncContextManager[Node]]) -> None:
    """Answer what comes on the standard input until it ends."""
    # What libraries print goes to the log.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    asyncio.run(_serve(open_node, Given(**json.loads(sys.argv[1])), answers))


async def _serve(
    open_node: Callable[[Given], AbstractAsyncContextManager[Node]], given: Given, answers: TextIO
) -> None:
    async with open_node(given) as node:
        print("{}", file=answers)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await _answer(node, json.loads(line))), file=answers)


async def _answer(node: Node, question: dict[str, Any]) -> dict[str, Any]:
    match question.pop("do"):
        case "alone":
            ends = await node.alone(**question)
            return {"ms": [1000 * (b - a) for a, b in pairwise(ends)]}
        case "chains":
            await node.chains(**question)
        case "jobs":
            await node.jobs(**question)
    return {}


async def limited(count: int, at_once: int, work: Callable[[], Awaitable[Any]]) -> None:
    """Do the same work so often, some at once."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await work()

    await asyncio.gather(*(one() for _ in range(count)))


async def until(done: Callable[[], Awaitable[bool]], within: float = 300.0) -> None:
    """Look twenty times a second whether something is done. Raises TimeoutError."""
    give_up = time.monotonic() + within
    while not await done():
        if time.monotonic() > give_up:
            raise TimeoutError(f"not done after {within:g} s")
        await asyncio.sleep(LOOK_EVERY)
