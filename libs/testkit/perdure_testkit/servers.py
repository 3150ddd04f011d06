"""Where a test session's servers are, and what embedded ones are given to be quick."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from perdure_stack.account import open_temporary_root, server_account

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 1 << 30
"""Bytes that must be free in `MEMORY` before servers are put there."""

TEST_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        # A clone waits for a checkpoint: let there be little to write, and none in between.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "512MB",
        "checkpoint_timeout": "1h",
    }
)


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are: `database_url` is a superuser's, `template` a migrated database to clone."""

    database_url: str
    redis_url: str
    template: str

    def to_json(self) -> str:
        """Return the form in which one process tells another."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Servers:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def fast_root() -> Path:
    """Return the quickest temporary place that a server's account can enter."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        return MEMORY
    return open_temporary_root(server_account())


def make_directory(prefix: str, parent: Path | None = None) -> Path:
    """Make a directory, of the fast root by default, in which a server of any account can live."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent or fast_root()))
    path.chmod(0o755)
    return path
