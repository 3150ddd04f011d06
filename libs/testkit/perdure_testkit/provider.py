"""An outside provider for tests: an HTTP server that honours `Idempotency-Key` and logs each call.

A path answers as its `Behaviour` says, the default where none was scripted. Work under a key is
done once, however often it is asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from perdure_testkit.waiting import ENGINE_PATIENCE, eventually

KEY_HEADER = "idempotency-key"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What becomes of one call.

    `works`: the work is done before the answer. `status` and `headers` are the answer's; a status
    of 0 drops the connection instead. `hold`, if given, is awaited first, so that the call is open.
    """

    works: bool = True
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: asyncio.Event | None = None


WORK = Behaviour()
DROP_AFTER_WORK = Behaviour(status=0)


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came, when on the loop's clock, and the key that it was made under."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def key(self) -> str:
        """The idempotency key, empty if there was none."""
        return self.headers.get(KEY_HEADER, "")


class Provider:
    """Started and stopped in the loop that its tests run in."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._worked: Counter[str] = Counter()
        self._scripts: defaultdict[str, deque[Behaviour]] = defaultdict(deque)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._port = 0

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every open call."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()

    def url(self, path: str) -> str:
        """Return the URL of a path such as `/mail/7`."""
        return f"http://{LOOPBACK}:{self._port}{path}"

    def script(self, path: str, *behaviours: Behaviour) -> None:
        """Let the next calls of a path go as these say, each once; later ones work."""
        self._scripts[path].extend(behaviours)

    def calls_of(self, path: str) -> list[Call]:
        """Return the calls of a path so far."""
        return [call for call in self.calls if call.path == path]

    def keys_of(self, path: str) -> set[str]:
        """Return the keys that a path was called under."""
        return {call.key for call in self.calls_of(path)}

    def times_worked(self, key: str) -> int:
        """Return how often the work of a key was done; more than 1 would be a broken provider."""
        return self._worked[key]

    async def wait_called(
        self, path: str, count: int = 1, *, within: float = ENGINE_PATIENCE
    ) -> None:
        """Wait until a path was called `count` times."""
        await eventually(
            lambda: len(self.calls_of(path)) >= count,
            within=within,
            what=f"{count} calls of {path}",
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._answer(await _read(reader), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the caller died, which is what many tests are about
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, call: Call, writer: asyncio.StreamWriter) -> None:
        self.calls.append(call)
        script = self._scripts[call.path]
        behaviour = script.popleft() if script else WORK
        if behaviour.hold is not None:
            await behaviour.hold.wait()
        if behaviour.works and not (call.key and self._worked[call.key]):
            self._worked[call.key] += 1
        if behaviour.status == 0:
            writer.transport.abort()
            return
        body = json.dumps({"key": call.key, "worked": self._worked[call.key]}).encode()
        writer.write(_head(behaviour, len(body)) + body)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    at = asyncio.get_running_loop().time()
    return Call(method, path, MappingProxyType(headers), body, at)


def _head(behaviour: Behaviour, length: int) -> bytes:
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Connection": "close",
        **behaviour.headers,
    }
    lines = [f"HTTP/1.1 {behaviour.status} -", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
