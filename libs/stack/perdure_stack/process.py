"""One child process that ends with its parent, with a log file and an awaitable end.

A thread of its own starts each child and waits for it. The kernel's tie between the two is with
the *thread* that started the child, so that thread must live exactly as long; and an end that is
awaited through a thread can be awaited from any event loop, one after the other.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from perdure_stack import child as launcher
from perdure_stack.account import Account

KERNEL_TIES_CHILDREN = sys.platform == "linux"
LOG_TAIL_LINES = 15
LOG_TAIL_BYTES = 16_384


class Child(ABC):
    """A program that runs while a thread of its own waits for its end; start it once.

    ``log`` receives both its streams, appended.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._log_start = 0
        self._started: Future[int] = Future()
        self._exited: Future[int] = Future()
        # A future that runs cannot be cancelled, so a waiter who gives up takes it from nobody.
        self._exited.set_running_or_notify_cancel()

    @abstractmethod
    def _live(self, started: Callable[[int], None]) -> int:
        """Start the program, tell its process id, and return its exit status when it has ended.

        Raises OSError when the machine cannot start it.
        """

    def start(self) -> None:
        """Start the program. Raises OSError when the machine cannot."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        threading.Thread(target=self._wait_out, name=f"child {self.log.stem}", daemon=True).start()
        self._started.result()

    def _wait_out(self) -> None:
        try:
            code = self._live(self._started.set_result)
        except OSError as error:
            self._started.set_exception(error)
        else:
            self._exited.set_result(code)

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._started.result()

    @property
    def returncode(self) -> int | None:
        """Its exit status, minus the signal's number if one ended it, or None while it runs."""
        return self._exited.result() if self._exited.done() else None

    @property
    def is_running(self) -> bool:
        """Whether the program was started and has not ended."""
        return self._started.done() and not self._exited.done()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; a program that has ended gets none."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises TimeoutError after ``timeout`` s."""
        return await asyncio.wait_for(asyncio.wrap_future(self._exited), timeout)

    async def end(self, steps: Sequence[tuple[signal.Signals, float]]) -> int:
        """Send each signal in turn, granting its seconds, then SIGKILL; return the exit status."""
        for number, grace in steps:
            self.send_signal(number)
            try:
                return await self.wait(grace)
            except TimeoutError:
                continue
        self.send_signal(signal.SIGKILL)
        return await self.wait()

    def log_tail(self) -> list[str]:
        """Return the last lines that this start of the program wrote."""
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]


class ChildProcess(Child):
    """A program run as a child.

    ``orphan_signal`` is what the child gets when this process dies without stopping it.
    ``lifeline`` chooses the portable tie instead of the kernel's.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        account: Account | None = None,
        orphan_signal: signal.Signals = signal.SIGTERM,
        lifeline: bool = not KERNEL_TIES_CHILDREN,
    ) -> None:
        super().__init__(log)
        self._command = command
        self._environment = environment
        self._directory = directory
        self._account = account
        self._orphan_signal = orphan_signal
        self._lifeline = lifeline

    def _live(self, started: Callable[[int], None]) -> int:
        reading, writing = os.pipe() if self._lifeline else (None, None)
        try:
            process = self._open(reading)
        finally:
            if reading is not None:
                os.close(reading)
        started(process.pid)
        code = process.wait()
        if writing is not None:
            os.close(writing)
        return code

    def _open(self, lifeline: int | None) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._launch_command(lifeline),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                pass_fds=() if lifeline is None else (lifeline,),
                # A Ctrl-C in the terminal is for the parent, which stops its children in order.
                start_new_session=True,
            )

    def _launch_command(self, lifeline: int | None) -> list[str]:
        command = [sys.executable, "-I", "-S", launcher.__file__]
        command += ["--parent", str(os.getpid()), "--signal", str(int(self._orphan_signal))]
        if self._account is not None:
            command += ["--user", f"{self._account.uid}:{self._account.gid}"]
        if lifeline is not None:
            command += ["--lifeline", str(lifeline)]
        return [*command, "--", *self._command]
