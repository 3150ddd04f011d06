"""`python -m perdure_store`, as a person or a deploy hook runs it."""

import asyncio
import os
import subprocess
import sys

from perdure_store.migration_files import bundled_migrations, read_migrations
from perdure_testkit.database import Database

NAMES = [migration.name for migration in read_migrations(bundled_migrations())]


async def run(*arguments: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PERDURE_DATABASE")}
    if url is not None:
        environment["PERDURE_DATABASE_URL"] = url
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "perdure_store", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_migrate_names_what_it_applied_and_status_what_is_pending(
    empty_database: Database,
) -> None:
    url = empty_database.url()
    pending = await run("status", url=url)
    assert pending.stdout.splitlines() == [f"pending  {name}" for name in NAMES]

    migrated = await run("migrate", "--database-url", url)
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert migrated.stdout.splitlines() == [f"applied {name}" for name in NAMES]

    status = await run("status", url=url)
    assert [line.split()[:2] for line in status.stdout.splitlines()] == [
        ["applied", name] for name in NAMES
    ]


async def test_a_missing_url_and_a_missing_database_are_said_in_one_shape(
    empty_database: Database,
) -> None:
    missing = await run("status")
    assert missing.returncode == 2
    assert missing.stderr.startswith("what: no database was named\nwhere: PERDURE_DATABASE")
    assert "\ndo this: " in missing.stderr

    absent = await run("migrate", url=empty_database.url() + "_absent")
    assert absent.returncode == 1
    assert "_absent" in absent.stderr
    assert "\ndo this: create the database" in absent.stderr
