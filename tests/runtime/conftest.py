"""What several tests of the chassis use."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from perdure_runtime import logs
from perdure_runtime.lifecycle import Service
from perdure_testkit.echo import Echo

Stress = Callable[[Service], Awaitable[None]]
Logged = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def startstop_stress() -> Stress:
    """Drive a component through every order of start and stop that the contract names."""
    return _startstop_stress


async def _startstop_stress(component: Service) -> None:
    async with asyncio.timeout(10):
        await component.stop()
        await component.start()
        await component.start()
        await asyncio.gather(component.stop(), component.stop())
        await component.stop()
        for _ in range(20):
            calls = [component.start(), component.start(), component.stop(), component.start()]
            await asyncio.gather(*calls, component.stop())
        await component.start()
        await component.drain()
        await component.drain()
        await component.stop()


@pytest.fixture
def logged() -> Iterator[Logged]:
    """Log into memory for the length of a test; call it with an action to get its lines."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = StringIO()
    logs.configure("test", form="json", level="debug", stream=stream)

    def of(action: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in lines if line["action"] == action]

    yield of
    logging.captureWarnings(False)
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
async def echo(tmp_path: Path) -> AsyncIterator[Echo]:
    async with AsyncExitStack() as stack:
        yield Echo(tmp_path / "grpc", stack)
