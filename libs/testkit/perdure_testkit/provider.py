"""An outside provider for tests: an HTTP server that logs each call and counts what it really did.

It honours `Idempotency-Key` or not, as its `Keys` say, and answers a look-up by key at `LOOKUP`. A
path answers as its `Behaviour` says, `WORK` where none was scripted.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

from perdure_testkit.waiting import ENGINE_PATIENCE, eventually

KEY_HEADER = "idempotency-key"
LOOPBACK = "127.0.0.1"
LOOKUP = "/lookup"
"""The path at which `?key=` is answered with 200 if its work was done, else with 404."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What the provider makes of a key: `honours` it, so that its work is done once, for `seconds`
    after that, None for ever.
    """

    honours: bool = True
    seconds: float | None = None


HONOURED = Keys()
IGNORED = Keys(honours=False)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What becomes of one call.

    `works`: the work is done before the answer. `status` and `headers` are the answer's; a status
    of 0 drops the connection instead. `hold`, if given, is awaited before the work and `delay`
    after it, so that the call is open. `body` replaces the usual answer; `cut` sends so many bytes
    of it and drops the connection, and `pace` waits so many seconds before each 1,000.
    """

    works: bool = True
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: asyncio.Event | None = None
    delay: asyncio.Event | None = None
    body: bytes | None = None
    cut: int | None = None
    pace: float = 0.0


WORK = Behaviour()
DROP_BEFORE_WORK = Behaviour(works=False, status=0)
DROP_AFTER_WORK = Behaviour(status=0)
BREAK_IN_ANSWER = Behaviour(cut=3)
FAIL_AFTER_WORK = Behaviour(status=500)


def too_many(retry_after: str) -> Behaviour:
    """Refuse with 429 and this Retry-After, seconds or a date."""
    return Behaviour(works=False, status=429, headers={"Retry-After": retry_after})


def huge(size: int) -> Behaviour:
    """Work, and answer with a body of so many bytes."""
    return Behaviour(body=b"x" * size)


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came, when on the loop's clock, and the key that it was made under."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    query: Mapping[str, str]

    @property
    def key(self) -> str:
        """The idempotency key, empty if there was none."""
        return self.headers.get(KEY_HEADER, "")


class Provider:
    """Started and stopped in the loop that its tests run in."""

    def __init__(self, keys: Keys = HONOURED) -> None:
        self.calls: list[Call] = []
        self._keys = keys
        self._worked: Counter[str] = Counter()
        self._kept: dict[str, float] = {}
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
        """Return how often the work of a key was done; more than 1 is a duplicate."""
        return self._worked[key]

    def worked(self) -> Mapping[str, int]:
        """Return how often the work of each key was done."""
        return MappingProxyType(dict(self._worked))

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
        behaviour = script.popleft() if script else self._usual(call)
        if behaviour.hold is not None:
            await behaviour.hold.wait()
        if behaviour.works:
            self._work(call)
        if behaviour.delay is not None:
            await behaviour.delay.wait()
        if behaviour.status == 0:
            writer.transport.abort()
            return
        await _send(behaviour, self._body(behaviour, call), writer)

    def _usual(self, call: Call) -> Behaviour:
        if call.path != LOOKUP:
            return WORK
        was_done = self._worked[call.query.get("key", "")] > 0
        return Behaviour(works=False, status=200 if was_done else 404)

    def _work(self, call: Call) -> None:
        now = asyncio.get_running_loop().time()
        if call.key and self._keys.honours and self._kept.get(call.key, now) > now:
            return
        self._worked[call.key] += 1
        lifetime = self._keys.seconds
        self._kept[call.key] = float("inf") if lifetime is None else now + lifetime

    def _body(self, behaviour: Behaviour, call: Call) -> bytes:
        if behaviour.body is not None:
            return behaviour.body
        key = call.query.get("key", call.key)
        return json.dumps({"key": key, "worked": self._worked[key]}).encode()


async def _read(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    at = asyncio.get_running_loop().time()
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return Call(method, parts.path, MappingProxyType(headers), body, at, MappingProxyType(query))


async def _send(behaviour: Behaviour, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(_head(behaviour, len(body)))
    sent = body if behaviour.cut is None else body[: behaviour.cut]
    step = 1000 if behaviour.pace else max(1, len(sent))
    for begin in range(0, len(sent), step):
        if behaviour.pace:
            await asyncio.sleep(behaviour.pace)
        writer.write(sent[begin : begin + step])
        await writer.drain()
    if behaviour.cut is not None:
        writer.transport.abort()


def _head(behaviour: Behaviour, length: int) -> bytes:
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Connection": "close",
        **behaviour.headers,
    }
    lines = [f"HTTP/1.1 {behaviour.status} -", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
