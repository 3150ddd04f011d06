"""Restate: its server journals the steps of a service that runs under hypercorn."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import restate

from tests.bench.peers.nodes.protocol import Given, limited, serve, until

MODULE = "tests.bench.peers.nodes.restate_node"
SERVERS = "node_modules/@restatedev/restate-server-*/bin/restate-server"

bench = restate.Service("bench")


async def nothing() -> None:
    """Do nothing."""


@bench.handler()
async def chain(ctx: restate.Context, steps: int) -> list[float]:
    """Do steps in a row; return when each had ended."""
    ends = []
    for number in range(steps):
        await ctx.run_typed(f"s{number}", nothing)
        ends.append(time.perf_counter())
    return ends


@bench.handler()
async def job(_ctx: restate.Context, _number: int) -> None:
    """Do nothing."""


app = restate.app([bench])


class RestateNode:
    """A client of the server's ingress."""

    def __init__(self, given: Given, http: aiohttp.ClientSession, ingress: str) -> None:
        self._at_once = given.concurrency
        self._http = http
        self._ingress = ingress

    async def alone(self, steps: int) -> Sequence[float]:
        async with self._http.post(f"{self._ingress}/bench/chain", json=steps) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def chains(self, runs: int, steps: int) -> None:
        await limited(runs, self._at_once, lambda: self.alone(steps))

    async def jobs(self, count: int) -> None:
        async def one() -> None:
            async with self._http.post(f"{self._ingress}/bench/job", json=0) as answer:
                answer.raise_for_status()

        await limited(count, self._at_once, one)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start_server(given: Given, ports: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start the server, with its defaults, which fsync its log."""
    programs = sorted(Path(given.files).glob(SERVERS))
    if not programs:
        raise FileNotFoundError(f"no restate-server below {given.files}: is npm here?")
    fabric, ingress, admin = (f"127.0.0.1:{port}" for port in ports)
    settings = {
        "RESTATE_BIND_ADDRESS": fabric,
        "RESTATE_ADVERTISED_ADDRESS": f"http://{fabric}/",
        "RESTATE_INGRESS__BIND_ADDRESS": ingress,
        "RESTATE_ADMIN__BIND_ADDRESS": admin,
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    command = [str(programs[0]), "--no-logo", "--base-dir", given.directory]
    return subprocess.Popen(command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL)


def start_service(given: Given, port: int) -> subprocess.Popen[bytes]:
    """Start the service's processes."""
    command = [sys.executable, "-m", "hypercorn", "--workers", str(given.processes)]
    command += ["--worker-class", "uvloop", "--bind", f"127.0.0.1:{port}", f"{MODULE}:app"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


async def register(http: aiohttp.ClientSession, admin: str, port: int) -> None:
    """Tell the server where the service is, as soon as both are there."""

    async def told() -> bool:
        try:
            body = {"uri": f"http://127.0.0.1:{port}"}
            async with http.post(f"{admin}/deployments", json=body) as answer:
                return answer.ok
        except aiohttp.ClientError:
            return False

    await until(told, within=60)


@asynccontextmanager
async def open_node(given: Given) -> AsyncIterator[RestateNode]:
    *ports, port = free_ports(4)
    children = [start_server(given, ports), start_service(given, port)]
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(connector=connector) as http:
            await register(http, f"http://127.0.0.1:{ports[2]}", port)
            yield RestateNode(given, http, f"http://127.0.0.1:{ports[1]}")
    finally:
        for child in children:
            child.terminate()
        for child in children:
            await asyncio.to_thread(child.wait, 60)


if __name__ == "__main__":
    serve(open_node)
