"""One set of servers for all processes of a test session, started by the first that asks.

The process that runs the session makes a directory with a FIFO whose writing end it alone holds.
Whoever needs servers first starts the keeper, a process of its own, and waits until it has written
where they are. The keeper stops them when the FIFO ends: when the session is over, or dead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure_testkit.servers import Servers, fast_root, make_directory

VARIABLE = "PERDURE_TEST_SESSION"
PREFIX = "perdure-test-"

START_TIMEOUT = 90.0  # seconds, enough for an image to be pulled
STOP_TIMEOUT = 30.0  # seconds
INTERVAL = 0.02  # seconds


class SessionFiles:
    """The files by which the processes of a session find each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lifeline = directory / "lifeline"
        self.start_lock = directory / "start.lock"
        self.keeper_lock = directory / "keeper.lock"
        self.servers = directory / "servers.json"
        self.log = directory / "keeper.log"


class TestSession:
    """The session as its first process holds it."""

    __test__ = False

    def __init__(self) -> None:
        _remove_dead_sessions(fast_root())
        self._files = SessionFiles(make_directory(PREFIX))
        os.mkfifo(self._files.lifeline)
        # Opened for both so that it does not wait for a reader; programs started later lack it.
        self._writer = os.open(self._files.lifeline, os.O_RDWR)
        os.environ[VARIABLE] = str(self._files.directory)

    def close(self) -> None:
        """Let the servers end, and wait until they are gone."""
        os.close(self._writer)
        os.environ.pop(VARIABLE, None)
        deadline = time.monotonic() + STOP_TIMEOUT
        while _is_held(self._files.keeper_lock) and time.monotonic() < deadline:
            time.sleep(INTERVAL)
        shutil.rmtree(self._files.directory, ignore_errors=True)


def session_directory() -> Path:
    """Return the directory of the session, in which a server of any account can live."""
    return Path(os.environ[VARIABLE])


def session_servers() -> Servers:
    """Return the session's servers, started if this process is the first to ask.

    RuntimeError, with the keeper's log, when they do not start.
    """
    files = SessionFiles(session_directory())
    with _locked(files.start_lock):
        if not files.servers.exists():
            _start_keeper(files)
        return Servers.from_json(files.servers.read_text(encoding="utf-8"))


def _start_keeper(files: SessionFiles) -> None:
    command = [sys.executable, "-m", "perdure_testkit.keeper", str(files.directory)]
    with files.log.open("wb") as log:
        # In a session of its own, so that Ctrl-C ends the tests first and the servers after them.
        keeper = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_TIMEOUT
    while not files.servers.exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            keeper.kill()
            raise RuntimeError(f"the servers did not start:\n{files.log.read_text()}")
        time.sleep(INTERVAL)
    # The session outlives whoever started the keeper, so nobody here waits for its end.
    keeper.returncode = 0


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_dead_sessions(root: Path) -> None:
    """Remove what sessions left that were killed before they could."""
    for directory in root.glob(f"{PREFIX}*"):
        try:
            # Refused when neither the session's first process nor its keeper has the FIFO open.
            os.close(os.open(directory / "lifeline", os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno == errno.ENXIO:
                shutil.rmtree(directory, ignore_errors=True)


def _is_held(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
