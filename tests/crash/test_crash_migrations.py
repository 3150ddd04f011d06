"""Kill the migration runner wherever it commits; the next runner ends with the whole schema."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from perdure_runtime.fail_points import ENVIRONMENT_VARIABLE
from perdure_testkit.database import EMPTY_TEMPLATE, Database, temporary_database
from perdure_testkit.schema_facts import schema_facts
from perdure_testkit.servers import Servers

from tests.crash.matrix import MIGRATION, Entry, entries
from tools.findings import ROOT

MIGRATION_ENTRIES = [entry for entry in entries() if entry.owner == MIGRATION]


# Of the kind whose statements are committed one by one, so that the runner can die between two.
WITHOUT_TRANSACTION = """-- no transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_tried_a ON start_keys (created_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_tried_b ON start_keys (digest);
"""


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    shutil.copytree(
        ROOT / "migrations", folder, ignore=shutil.ignore_patterns("schema.sql", "*.md")
    )
    (folder / "9999_post_try_it.sql").write_text(WITHOUT_TRANSACTION, encoding="utf-8")
    return folder


@pytest.mark.parametrize("entry", MIGRATION_ENTRIES, ids=str)
async def test_the_schema_is_whole_after_a_runner_died_at(
    entry: Entry, empty_database: Database, servers: Servers, migrations: Path, tmp_path: Path
) -> None:
    (tmp_path / str(entry)).touch()
    armed = {ENVIRONMENT_VARIABLE: entry.armed(tmp_path)}

    first = await _migrate(empty_database, migrations, armed)
    second = await _migrate(empty_database, migrations, {})

    assert first == -signal.SIGKILL
    assert second == 0
    assert await _facts(empty_database) == await _facts_of_one_run(servers, migrations)


async def _facts_of_one_run(servers: Servers, migrations: Path) -> set[str]:
    async with temporary_database(servers.database_url, EMPTY_TEMPLATE) as database:
        assert await _migrate(database, migrations, {}) == 0
        return await _facts(database)


async def _facts(database: Database) -> set[str]:
    return await schema_facts(await database.connect())


async def _migrate(database: Database, migrations: Path, extra: dict[str, str]) -> int:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure_store", "migrate",
        "--dir", str(migrations), "--database-url", database.url(),
        env={**kept, **extra},
    )  # fmt: skip
    return await runner.wait()
