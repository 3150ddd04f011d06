"""What the embedded servers share: start, stop, kill, restart, and the choice of a port."""

import shutil
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from perdure_stack.account import server_account
from perdure_stack.errors import StackError
from perdure_stack.home import find_home
from perdure_stack.ports import free_port, port_is_free
from perdure_stack.process import ChildProcess
from perdure_stack.readiness import wait_until_ready

PORT_TRIES = 5
START_TIMEOUT = 60.0  # seconds; recovery of a large log takes its time


class EmbeddedServer(ABC):
    """A server process on a loopback port with its data in a directory of the caller's.

    Starting a started server and stopping a stopped one are harmless. The port, chosen at the
    first start unless given, stays the same over restarts. Without ``durable`` what an operating
    system's crash would lose is not waited for; a kill of the process still loses nothing that
    was acknowledged, unless the subclass says otherwise. The server stops when this process dies.
    """

    name: ClassVar[str]
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]]

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        durable: bool = True,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.directory = directory.absolute()
        self.durable = durable
        self._port = port
        self._start_timeout = start_timeout
        self._child: ChildProcess | None = None
        self._account = server_account()

    @property
    def port(self) -> int:
        """The loopback port. Raises StackError before the first start chose one."""
        if self._port is None:
            raise StackError(
                f"{self.name} has no port yet", str(self.directory), "start it before asking"
            )
        return self._port

    @property
    def pid(self) -> int | None:
        """The server's process id, or None while it does not run."""
        return self._child.pid if self._child is not None and self._child.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process that this object started is there."""
        return self._child is not None and self._child.is_running

    async def start(self) -> None:
        """Start the server and return once it answers. Raises StackError when it cannot."""
        if self.is_running:
            return
        home = self._home()
        await self._prepare(home)
        if self._port is None:
            await self._start_on_some_port(home)
            return
        if not port_is_free(self._port):
            raise StackError.port_busy(self.name, self._port, "choose another port")
        await self._start_on(home, self._port)

    async def stop(self) -> None:
        """Stop the server in its quickest clean way and wait until it is gone."""
        if self._child is not None:
            await self._child.end(self.stop_steps)
            self._child = None
        self._clean_up()

    async def kill(self) -> None:
        """End the server with SIGKILL, as a crash would, and wait until it is gone."""
        if self._child is not None:
            await self._child.end(())
            self._child = None

    async def restart(self) -> None:
        """Stop the server and start it again on the same port with the same data."""
        await self.stop()
        await self.start()

    async def destroy(self) -> None:
        """Stop the server and remove its directory with all data."""
        await self.stop()
        if self.directory.exists():
            shutil.rmtree(self._home())
            shutil.rmtree(self.directory, ignore_errors=True)

    def _home(self) -> Path:
        return find_home(self.directory, self._account)

    def _clean_up(self) -> None:  # noqa: B027 - most servers leave nothing elsewhere
        """Remove what the server kept outside its home."""

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    async def _start_on_some_port(self, home: Path) -> None:
        for _ in range(PORT_TRIES):
            port = free_port()
            try:
                await self._start_on(home, port)
            except StackError:
                # Somebody else was quicker to take the port; anything else is a real failure.
                if port_is_free(port):
                    raise
                continue
            self._port = port
            return
        raise StackError(
            f"{self.name} lost the race for a free port {PORT_TRIES} times",
            "127.0.0.1",
            "choose a port outside the range that the system hands out",
        )

    async def _start_on(self, home: Path, port: int) -> None:
        child = ChildProcess(
            self._command(home, port),
            log=self._log,
            environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            directory=home,
            account=self._account,
            orphan_signal=self.stop_steps[0][0],
        )
        child.start()
        try:
            await wait_until_ready(
                self.name, child, lambda: self._answers(home, port), self._start_timeout
            )
        except BaseException:
            await child.end(())
            raise
        self._child = child

    @abstractmethod
    async def _prepare(self, home: Path) -> None:
        """Make the data directory ready for a start."""

    @abstractmethod
    def _command(self, home: Path, port: int) -> list[str]:
        """Return the program and its arguments."""

    @abstractmethod
    async def _answers(self, home: Path, port: int) -> bool:
        """Tell whether this very server answers on ``port``."""
