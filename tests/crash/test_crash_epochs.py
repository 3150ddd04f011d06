"""Kill the command that begins an epoch; it has begun or not, and is given again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from perdure_runtime.fail_points import ENVIRONMENT_VARIABLE, Side
from perdure_testkit.database import Database

from tests.crash.matrix import EPOCH, Entry, entries

EPOCH_ENTRIES = [entry for entry in entries() if entry.owner == EPOCH]
AUDITED = "SELECT count(*) FROM audit_log WHERE action = 'epoch.raise'"


@pytest.mark.parametrize("entry", EPOCH_ENTRIES, ids=str)
async def test_an_epoch_is_begun_with_its_audit_or_not_at_all(
    entry: Entry, database: Database, tmp_path: Path
) -> None:
    (tmp_path / str(entry)).touch()
    killed = await _command(database, "raise", {ENVIRONMENT_VARIABLE: entry.armed(tmp_path)})
    assert killed == -signal.SIGKILL
    connection = await database.connect()
    begun = await connection.fetchval("SELECT max(epoch) FROM epochs")
    assert begun == (0 if entry.side is Side.BEFORE else 1)
    assert await connection.fetchval(AUDITED) == begun
    assert await _command(database, "lossless", {}) == 0
    assert await connection.fetchval("SELECT max(epoch) FROM epochs") == begun


async def _command(database: Database, action: str, extra: dict[str, str]) -> int:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure_store", "epoch", action, "--actor", "ann",
        "--database-url", database.url(),
        env={**kept, **extra},
    )  # fmt: skip
    return await process.wait()
