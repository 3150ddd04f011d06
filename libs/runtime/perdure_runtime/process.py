"""A whole service process: configure, start, wait for a signal, drain, stop.

    # services/relay/perdure_relay/__main__.py
    sys.exit(run_service(RelayConfig, build))

    async def build(config: RelayConfig, process: Process) -> Service: ...

The first SIGTERM or SIGINT begins the drain, at most `drain_seconds` long; a second one, or the end
of that time, ends what is left at once. Exit codes: 0 stopped when told, 1 could not start or stop,
2 the configuration was refused.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import uvloop

from perdure_runtime import fail_points, logs, tracing
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.config import load
from perdure_runtime.config_groups import ServiceConfig
from perdure_runtime.errors import InvalidArgument
from perdure_runtime.lifecycle import Group, Service
from perdure_runtime.metrics import LoopLag, show_build
from perdure_runtime.ops import OpsServer

FORCED_STOP_SECONDS = 5.0

YOUNG_OBJECTS = 50_000
"""New containers between two collections of the young: about what a batch of 256 events makes."""

_logger = logging.getLogger(__name__)

ConfigT = TypeVar("ConfigT", bound=ServiceConfig)


class Exit(IntEnum):
    """Exit codes of a service process."""

    STOPPED = 0
    FAILED = 1
    MISCONFIGURED = 2


@dataclass(frozen=True, slots=True)
class Process:
    """What the process offers to the service in it: register readiness checks on `ops`."""

    ops: OpsServer
    clock: Clock


Build = Callable[[ConfigT, Process], Awaitable[Service]]


def run_service(
    config_class: type[ConfigT], build: Build[ConfigT], environ: Mapping[str, str] | None = None
) -> int:
    """Run a service until it is told to stop; return the exit code."""
    variables = os.environ if environ is None else environ
    try:
        config = load(config_class, variables)
        fail_points.arm_from(variables)
    except InvalidArgument as refusal:
        print(refusal.message, file=sys.stderr)
        return Exit.MISCONFIGURED
    logs.configure(
        config.SERVICE,
        form=config.log_format,
        level=config.log_level,
        source=tracing.log_fields,
    )
    show_build(config.SERVICE)
    traced = tracing.start_tracing(config.SERVICE, config.otlp_endpoint, config.trace_ratio)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config, build))
    finally:
        if traced is not None:
            traced.stop()


async def _run(config: ConfigT, build: Build[ConfigT]) -> Exit:
    signals = _Signals()
    lag = LoopLag()
    process = Process(OpsServer(config.host, config.ops_port, lag=lag), SystemClock())
    logs.emit(_logger, "service.starting", config.printable())
    try:
        group = Group([lag, process.ops, await build(config, process)])
        if not await signals.first_or(group.start()):
            await group.stop()
            return Exit.STOPPED
    except Exception as error:  # noqa: BLE001 - classified and logged, then the process ends
        logs.log_failure(_logger, "service.start_failed", error)
        return Exit.FAILED
    _settle_heap()
    process.ops.starting = False
    logs.log(_logger, "service.started", ops_port=process.ops.port)
    await signals.first.wait()
    process.ops.draining = True
    logs.log(_logger, "service.draining", at_most_seconds=config.drain_seconds)
    return await _end(group, config.drain_seconds, signals)


def _settle_heap() -> None:
    """Leave out of every later collection what lives as long as the process does.

    Batches make and drop many objects together. With the interpreter's own threshold each of them
    is walked several times while it is still in use.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


async def _end(group: Group, drain_seconds: float, signals: _Signals) -> Exit:
    try:
        async with asyncio.timeout(drain_seconds):
            in_time = await signals.second_or(_drain_and_stop(group))
    except TimeoutError:
        in_time = False
    if not in_time:
        logs.log(_logger, "service.forced", level=logging.WARNING)
        async with asyncio.timeout(FORCED_STOP_SECONDS):
            await group.stop()
    logs.log(_logger, "service.stopped")
    return Exit.STOPPED


async def _drain_and_stop(group: Group) -> None:
    await group.drain()
    await group.stop()


class _Signals:
    """The first and the second request to end."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self._second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._arrived)

    def _arrived(self) -> None:
        (self._second if self.first.is_set() else self.first).set()

    async def first_or(self, work: Awaitable[None]) -> bool:
        """Run `work` unless the first signal comes before its end; return whether it ended."""
        return await _unless(self.first, work)

    async def second_or(self, work: Awaitable[None]) -> bool:
        """Run `work` unless the second signal comes before its end; return whether it ended."""
        return await _unless(self._second, work)


async def _unless(event: asyncio.Event, work: Awaitable[None]) -> bool:
    task, signalled = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([task, signalled], return_when=asyncio.FIRST_COMPLETED)
        ended = task.done()
    finally:
        signalled.cancel()
        task.cancel()
        await asyncio.wait([task])
    if ended:
        task.result()
    return ended
