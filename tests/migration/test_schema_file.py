"""`migrations/schema.sql` is what the migrations make."""

import asyncpg
import pytest
from perdure_store.migrate import migrate
from perdure_store.migration_files import Phase, bundled_migrations, read_migrations
from perdure_store.schema_version import NEEDED_VERSION
from perdure_testkit.database import EMPTY_TEMPLATE, Database, temporary_database
from perdure_testkit.schema_facts import schema_facts

SCHEMA = (bundled_migrations() / "schema.sql").read_text(encoding="utf-8")


@pytest.fixture
async def written(empty_database: Database) -> asyncpg.Connection:
    connection = await empty_database.connect()
    await connection.execute(SCHEMA)
    return connection


async def test_the_schema_file_makes_what_the_migrations_make(
    written: asyncpg.Connection, postgres_server: str
) -> None:
    # Not a clone of the template: rights on a database are not cloned with it.
    async with temporary_database(postgres_server, EMPTY_TEMPLATE) as other:
        migrated = await other.connect()
        await migrate(migrated, read_migrations(bundled_migrations()))

        by_file, by_migrations = await schema_facts(written), await schema_facts(migrated)

    hint = "run `make schema` after a change of the migrations"
    assert sorted(by_file - by_migrations) == [], hint
    assert sorted(by_migrations - by_file) == [], hint


def test_a_service_is_ready_once_all_was_migrated_that_comes_before_its_rollout() -> None:
    migrations = read_migrations(bundled_migrations())

    assert max(one.version for one in migrations if one.phase is Phase.PRE) == NEEDED_VERSION


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE lanes ADD COLUMN extra integer",
        "ALTER TABLE lanes ALTER COLUMN shards SET DEFAULT 2",
        "ALTER TABLE lanes ALTER COLUMN shards DROP NOT NULL",
        "ALTER TABLE lanes ALTER COLUMN shards TYPE integer",
        "ALTER TABLE lanes DROP CONSTRAINT lanes_positive",
        "ALTER TABLE workflows DROP CONSTRAINT workflows_org_known",
        "ALTER TABLE outbox RESET (fillfactor)",
        "DROP INDEX outbox_in_turn",
        "DROP INDEX timers_one_per_step; "
        "CREATE INDEX timers_one_per_step ON timers (run_id, step, kind) WHERE step IS NOT NULL",
        "DROP TABLE steps_{month}",
        "ALTER INDEX steps_pkey_{month} RENAME TO other",
        "ALTER TYPE run_status ADD VALUE 'other'",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql "
        "AS $$BEGIN RETURN NEW; END$$",
        "ALTER FUNCTION ensure_month SECURITY INVOKER",
        "DROP VIEW no_way_forward",
        "DROP TRIGGER workflows_immutable ON workflows",
        "ALTER TABLE workflows DISABLE TRIGGER workflows_immutable",
        "REVOKE SELECT ON runs FROM perdure_ingest",
        "GRANT UPDATE (org) ON outbox TO perdure_relay",
        "GRANT EXECUTE ON FUNCTION ensure_month TO PUBLIC",
        "REVOKE USAGE ON SCHEMA public FROM perdure_timer",
        "ALTER TABLE runs DISABLE ROW LEVEL SECURITY",
        "DROP POLICY own_org ON runs",
        "ALTER POLICY own_org ON runs USING (true)",
        "ALTER VIEW no_way_forward RESET (security_invoker)",
    ],
)
async def test_the_comparison_sees_a_change_of_each_kind(database: Database, change: str) -> None:
    migrated = await database.connect()
    before = await schema_facts(migrated)
    month = await migrated.fetchval("SELECT to_char(min(month), 'YYYYMM') FROM months")
    await migrated.execute(change.format(month=month))

    assert await schema_facts(migrated) != before
