"""Writes migrations/schema.sql anew: migrates an empty embedded PostgreSQL and reads it back.

Run it as `python -m tools.write_schema` after a change of the migrations.
"""

import asyncio
import tempfile
from pathlib import Path

from perdure_stack.account import open_temporary_root, server_account
from perdure_stack.postgres import EmbeddedPostgres
from perdure_store.migrate import migrate
from perdure_store.migration_files import read_migrations
from perdure_store.pool import open_connection
from perdure_store.schema_text import schema_text

from tools.findings import ROOT

MIGRATIONS = ROOT / "migrations"


async def migrated_schema() -> str:
    """Migrate an empty database and return what it is then."""
    with tempfile.TemporaryDirectory(dir=open_temporary_root(server_account())) as directory:
        server = EmbeddedPostgres(Path(directory) / "postgres", durable=False)
        await server.start()
        try:
            connection = await open_connection(server.dsn(), application_name="write-schema")
            await migrate(connection, read_migrations(MIGRATIONS))
            text = await schema_text(connection)
            await connection.close()
        finally:
            await server.destroy()
    return text


if __name__ == "__main__":
    (MIGRATIONS / "schema.sql").write_text(asyncio.run(migrated_schema()), encoding="utf-8")
