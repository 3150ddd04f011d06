"""Runs services as real processes: started, awaited, restarted when they die, stopped in order."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from perdure_stack.process import Child, ChildProcess
from perdure_stack.readiness import answers_ok, wait_until_ready
from perdure_stack.services import ServiceSpec

READY_TIMEOUT = 30.0  # seconds
STOP_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL
BACKOFF_BASE = 0.2  # seconds before the first restart; doubles with each
BACKOFF_CAP = 5.0  # seconds
STEADY_AFTER = 30.0  # seconds of life after which a death counts as the first again

_log = logging.getLogger(__name__)


class OpenChild(Protocol):
    """Makes a child, to be started, as ``ChildProcess`` does."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        orphan_signal: signal.Signals,
    ) -> Child:
        """Return a child that runs the command."""


@dataclass(slots=True)
class _Service:
    spec: ServiceSpec
    child: Child | None = None
    watcher: asyncio.Task[None] | None = None
    extra_env: Mapping[str, str] = field(default_factory=dict)
    started_at: float = 0.0
    deaths: int = 0


class Supervisor:
    """Keeps the processes of ``specs``, in whose order they start; they stop in the reverse one.

    ``base_env`` is what every process inherits. With ``restart`` a process that dies unasked is
    started again after a growing pause; without it a death is left to be seen by ``wait_exit``.
    ``on_start`` is called whenever a process was started; ``open_child`` makes each of them. All
    are killed if this process dies. Use from one event loop.
    """

    def __init__(
        self,
        specs: Sequence[ServiceSpec],
        *,
        logs: Path,
        base_env: Mapping[str, str],
        restart: bool = False,
        ready_timeout: float = READY_TIMEOUT,
        stop_timeout: float = STOP_TIMEOUT,
        on_start: Callable[[], None] = lambda: None,
        open_child: OpenChild = ChildProcess,
    ) -> None:
        self._services = {spec.name: _Service(spec) for spec in specs}
        self._logs = logs
        self._base_env = base_env
        self._restart = restart
        self._ready_timeout = ready_timeout
        self._stop_timeout = stop_timeout
        self._on_start = on_start
        self._open_child = open_child

    @property
    def names(self) -> tuple[str, ...]:
        """The processes' names in order of start."""
        return tuple(self._services)

    def pid(self, name: str) -> int | None:
        """Return a process' id, or None while it does not run."""
        child = self._services[name].child
        return child.pid if child is not None and child.is_running else None

    def log(self, name: str) -> Path:
        """Return the file that receives a process' output."""
        return self._logs / f"{name}.log"

    async def start_all(self) -> None:
        """Start every process and return once all are ready.

        Raises StackError for the first that ends or stays unready; then all are stopped.
        """
        try:
            for service in self._services.values():
                self._open(service)
            await self._wait_all_ready()
        except BaseException:
            await self.stop_all()
            raise

    async def stop_all(self) -> None:
        """Stop every process, the last started first."""
        for name in reversed(self._services):
            await self.stop(name)

    async def start(
        self, name: str, extra_env: Mapping[str, str] | None = None, *, ready: bool = True
    ) -> None:
        """Start one process, with ``extra_env`` until its next start by hand.

        A process that runs is left alone. Returns once it is ready, at once with ``ready=False``.
        Raises StackError when it ends or stays unready.
        """
        service = self._services[name]
        if self.pid(name) is None:
            await self._forget(service)
            service.extra_env = dict(extra_env or {})
            self._open(service)
        if ready:
            await self.wait_ready(name)

    async def wait_ready(self, name: str) -> None:
        """Wait until a started process is ready. Raises StackError as ``start`` does."""
        service = self._services[name]
        if service.child is not None:
            url = service.spec.ready_url
            await wait_until_ready(
                name, service.child, lambda: answers_ok(url), self._ready_timeout
            )

    async def stop(self, name: str) -> int | None:
        """Stop one process by SIGTERM, later SIGKILL; return its exit status, if it ever ran."""
        service = self._services[name]
        await self._forget(service)
        if service.child is None:
            return None
        return await service.child.end([(signal.SIGTERM, self._stop_timeout)])

    async def kill(self, name: str) -> int | None:
        """End one process by SIGKILL, as a crash would; return its exit status, if it ever ran."""
        child = self._services[name].child
        return None if child is None else await child.end(())

    async def wait_exit(self, name: str, timeout: float | None = None) -> int:
        """Wait until a process has ended by itself; return its exit status, -9 after a SIGKILL.

        Raises TimeoutError after ``timeout`` seconds, LookupError if it was never started.
        """
        child = self._services[name].child
        if child is None:
            raise LookupError(f"{name} was never started")
        return await child.wait(timeout)

    async def restart(self, name: str, extra_env: Mapping[str, str] | None = None) -> None:
        """Stop one process and start it again; return once it is ready."""
        await self.stop(name)
        await self.start(name, extra_env)

    def _open(self, service: _Service) -> None:
        service.child = self._open_child(
            service.spec.command,
            log=self.log(service.spec.name),
            environment={**self._base_env, **service.spec.env, **service.extra_env},
            # Whoever killed this process did not ask for a drain, and its servers end with it.
            orphan_signal=signal.SIGKILL,
        )
        service.child.start()
        service.started_at = time.monotonic()
        service.watcher = asyncio.create_task(self._watch(service, service.child))
        self._on_start()

    async def _watch(self, service: _Service, child: Child) -> None:
        code = await child.wait()
        _log.warning("%s ended with status %d", service.spec.name, code)
        if not self._restart:
            return
        steady = time.monotonic() - service.started_at > STEADY_AFTER
        service.deaths = 1 if steady else service.deaths + 1
        await asyncio.sleep(min(BACKOFF_CAP, BACKOFF_BASE * 2 ** (service.deaths - 1)))
        _log.warning("%s starts again", service.spec.name)
        try:
            self._open(service)
        except OSError:
            _log.exception("%s cannot be started", service.spec.name)

    async def _forget(self, service: _Service) -> None:
        """Stop watching, so that a stop is not taken for a death."""
        watcher, service.watcher = service.watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait([watcher])

    async def _wait_all_ready(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name in self._services:
                    group.create_task(self.wait_ready(name))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
