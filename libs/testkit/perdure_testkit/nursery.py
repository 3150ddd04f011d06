"""Services as forks of one process that has imported them: no start costs a second of imports.

Run as `python -m perdure_testkit.nursery SOCKET MODULE...`. Each connection to the socket asks, by
a line of JSON, for one process that runs `main()` of a module; it is told the process' id by a
line, and its exit status by another. The nursery has one thread, since the fork of several could
take a lock along that nobody gives back. What it forked dies with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from perdure_stack.child import tie_by_kernel
from perdure_stack.process import Child, ChildProcess
from perdure_stack.readiness import wait_until_ready
from perdure_stack.services import module_command

BACKLOG = 64
START_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Order:
    """A process that is asked for: the module whose `main()` it runs, its log and environment."""

    module: str
    log: str
    environment: Mapping[str, str]

    def become(self) -> None:
        """Make this process, just forked, the one asked for."""
        os.setsid()
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv = [self.module]
        sys.path[:0] = filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep))


class _Forks:
    """The nursery's loop: takes orders, and tells of ends."""

    def __init__(self, listening: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._watch(listening, partial(self._accept, listening))
        self._listening = listening
        self._pid = os.getpid()

    def take_order(self) -> Order:
        """Serve until a fork is made; return, in the fork, what it is to become."""
        while True:
            for key, _ in self._selector.select():
                order: Order | None = key.data()
                if order is not None:
                    return order

    def _watch(self, what: int | socket.socket, then: Callable[[], Order | None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, then)

    def _accept(self, listening: socket.socket) -> Order | None:
        connection, _ = listening.accept()
        with connection.makefile("rb") as lines:
            order = Order(**json.loads(lines.readline()))
        if (pid := os.fork()) == 0:
            self._leave()
            connection.close()
            return order
        connection.sendall(b"%d\n" % pid)
        end = os.pidfd_open(pid)
        self._watch(end, partial(self._reap, pid, end, connection))
        return None

    def _reap(self, pid: int, end: int, connection: socket.socket) -> None:
        self._selector.unregister(end)
        os.close(end)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with connection:
            connection.sendall(b"%d\n" % status)

    def _leave(self) -> None:
        """Let go, in a fork, of what belongs to the nursery, and die with it."""
        tie_by_kernel(ctypes.CDLL(None, use_errno=True), signal.SIGKILL)
        if os.getppid() != self._pid:
            os.kill(os.getpid(), signal.SIGKILL)
        self._selector.close()
        self._listening.close()


class NurseryChild(Child):
    """A process that a nursery forks; `command` is `python -m MODULE`."""

    def __init__(
        self,
        path: Path,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        orphan_signal: signal.Signals,
    ) -> None:
        super().__init__(log)
        if orphan_signal is not signal.SIGKILL:
            raise ValueError(f"a nursery's processes die by SIGKILL, not by {orphan_signal}")
        self._path = path
        self._order = Order(command[-1], str(log), environment)

    def _live(self, started: Callable[[int], None]) -> int:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._path))
            connection.sendall(json.dumps(asdict(self._order)).encode() + b"\n")
            with connection.makefile("rb") as lines:
                if not (pid := lines.readline()):
                    raise OSError("the nursery has ended")
                started(int(pid))
                return int(lines.readline() or -signal.SIGKILL)


class Nursery:
    """A nursery of some modules' processes; start it, and give `open_child` to a supervisor."""

    def __init__(self, directory: Path, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._path = directory / "nursery"
        self._child = ChildProcess(
            module_command(__name__, str(self._path), *modules),
            log=directory / "nursery.log",
            environment=env,
            orphan_signal=signal.SIGKILL,
        )
        self.open_child = partial(NurseryChild, self._path)

    async def start(self) -> None:
        """Start it; orders may be given from here on, and wait for its imports."""
        self._child.start()

        async def listens() -> bool:
            return self._path.exists()

        await wait_until_ready("nursery", self._child, listens, START_TIMEOUT)

    async def stop(self) -> None:
        """End it and what it forked."""
        await self._child.end(())
        self._path.unlink(missing_ok=True)


def main(path: str, modules: Sequence[str]) -> int:
    """Serve until killed; in a fork, return the exit code of the module that it runs."""
    with socket.socket(socket.AF_UNIX) as listening:
        # Under another name until it listens: a path that exists can be connected to.
        listening.bind(f"{path}.new")
        listening.listen(BACKLOG)
        os.rename(f"{path}.new", path)
        mains = {module: import_module(f"{module}.__main__").main for module in modules}
        gc.freeze()
        order = _Forks(listening).take_order()
    order.become()
    return int(mains[order.module]())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
