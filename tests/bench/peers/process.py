"""A peer's process, in the environment of the peers, asked by lines of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".perdure" / "peers"
PYTHON = ENVIRONMENT / "venv" / "bin" / "python"
NODES = "tests.bench.peers.nodes"

READY_SECONDS = 90.0
ANSWER_SECONDS = 300.0
END_SECONDS = 30.0
TOLD_LINES = 12
LONGEST_LINE = 1 << 24  # bytes


class PeerFailed(Exception):
    """A peer did not start or answer; the message has the last it wrote to its log."""


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """One process of a peer."""

    process: asyncio.subprocess.Process
    log: Path

    async def ask(self, **question: object) -> Mapping[str, Any]:
        """Ask and return the answer. Raises PeerFailed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        return await self.answer(ANSWER_SECONDS)

    async def answer(self, seconds: float) -> Mapping[str, Any]:
        """Return the next answer. Raises PeerFailed if none comes in time."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
        except TimeoutError:
            raise PeerFailed(f"no answer in {seconds:g} s; {self._told()}") from None
        if not line:
            raise PeerFailed(self._told())
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """Let it end by itself, or else kill it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), END_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def _told(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return " / ".join(line.strip() for line in lines[-TOLD_LINES:] if line.strip())


@asynccontextmanager
async def running(
    module: str, directory: Path, given: Mapping[str, object], count: int
) -> AsyncIterator[Sequence[NodeProcess]]:
    """Lend so many processes of a peer, ready to be asked. Raises PeerFailed."""
    nodes: list[NodeProcess] = []
    try:
        for number in range(count):
            nodes.append(await _start(module, _folder(directory, number), given))
            await nodes[-1].answer(READY_SECONDS)
        yield nodes
    finally:
        await asyncio.gather(*(node.end() for node in nodes))


def _folder(directory: Path, number: int) -> Path:
    folder = directory / str(number)
    folder.mkdir(parents=True)
    return folder


async def _start(module: str, directory: Path, given: Mapping[str, object]) -> NodeProcess:
    told = {**given, "directory": str(directory), "files": str(ENVIRONMENT)}
    log = directory / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            "-m",
            f"{NODES}.{module}",
            json.dumps(told),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            cwd=ROOT,
            limit=LONGEST_LINE,
        )
    return NodeProcess(process, log)
