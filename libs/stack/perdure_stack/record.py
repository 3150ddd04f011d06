"""``stack.json``: where a running stack is, for the CLI, for examples and for people.

The file says where; the lock says whether. A stack holds the lock for as long as its process
lives, so a file that a killed stack left behind is never taken for a stack.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from perdure_stack.errors import StackError

RECORD = "stack.json"
LOCK = "stack.lock"


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """One process: its id (None while it is down), its ops server's URL, its log file."""

    pid: int | None
    ops_url: str
    log: str


@dataclass(frozen=True, slots=True)
class StackRecord:
    """A running stack. ``ingest_address`` is ingest's gRPC server, ``http_url`` its HTTP/JSON,
    ``worker_address`` the first worker's door for handlers.

    The two database URLs are the superuser's or the ones that were given, and are secrets of
    this machine.
    """

    pid: int
    ingest_address: str
    http_url: str
    worker_address: str
    coordinator_address: str
    database_url: str
    redis_url: str
    services: Mapping[str, ServiceRecord]

    def write(self, directory: Path) -> None:
        """Write the record into ``directory`` in one step, readable by its owner only."""
        draft = directory / f"{RECORD}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=2)
        draft.replace(directory / RECORD)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return the record of the stack that runs in ``directory``, or None without one."""
        if not stack_runs(directory):
            return None
        try:
            found = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        services = {name: ServiceRecord(**each) for name, each in found.pop("services").items()}
        return cls(**found, services=services)


def remove_record(directory: Path) -> None:
    """Remove the record; one that is not there is no error."""
    (directory / RECORD).unlink(missing_ok=True)


class StackLock:
    """Held by the one stack of a directory; the kernel lets go of it when the process ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises StackError when another stack has it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StackError(
                "a stack already runs in this directory",
                str(self._directory),
                "stop it with `make down` (`python -m perdure_stack down`), or choose another "
                "--dir",
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the lock; without holding it this does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def stack_runs(directory: Path) -> bool:
    """Tell whether a stack runs in ``directory``, by the lock that it would hold."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
