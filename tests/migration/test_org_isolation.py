"""Row-level security: ingest reads rows of the org that its transaction is for, and of no other.

The tables come from the catalogue, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping

import asyncpg
import pytest
from perdure_store.org_reads import reading
from perdure_testkit.database import Database

OF_THE_INSTALLATION = {"schema_migrations", "lanes", "leaders", "months", "epochs"}
"""Tables about no org."""

HANGING = {
    "attempts": "run_id",
    "history": "run_id",
    "scopes": "run_id",
    "blocks": "run_id",
    "step_costs": "run_id",
    "run_spending": "run_id",
    "workflow_nodes": "workflow_id",
    "workflow_lanes": "workflow_id",
    "run_migration_outcomes": "migration_id",
    "erasure_runs": "erasure_id",
    "erasure_counts": "erasure_id",
    "api_key_secrets": "key_id",
}
"""Tables without an org of their own, and what they hang on others by."""

ORGS = ("acme", "rival", "o'neill \\ sons")

MONTHS_RIGHTS = """
SELECT month.oid::regclass::text AS name, granted.grantee::regrole::text AS grantee,
       array_agg(granted.privilege_type ORDER BY granted.privilege_type) AS rights,
       (SELECT array_agg(of_parent.privilege_type ORDER BY of_parent.privilege_type)
          FROM pg_inherits AS i JOIN pg_class AS parent ON parent.oid = i.inhparent
         CROSS JOIN LATERAL aclexplode(parent.relacl) AS of_parent
         WHERE i.inhrelid = month.oid AND of_parent.grantee = granted.grantee) AS parents_rights
  FROM pg_class AS month CROSS JOIN LATERAL aclexplode(month.relacl) AS granted
 WHERE month.relispartition AND granted.grantee <> month.relowner
 GROUP BY month.oid, granted.grantee
"""

TABLES = """
SELECT c.relname::text AS name, c.relrowsecurity AS guarded,
       EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'org') AS has_org
  FROM pg_class AS c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""  # noqa: E501

COLUMNS = """
SELECT a.attname::text AS name, format_type(a.atttypid, NULL) AS type, t.typtype::text AS kind,
       (SELECT e.enumlabel FROM pg_enum AS e WHERE e.enumtypid = t.oid
         ORDER BY e.enumsortorder LIMIT 1)::text AS first_label
  FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
 WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
   AND a.attgenerated = '' AND a.attidentity = ''
"""

VALUES: Mapping[str, str] = {
    "text": "'x'", "bytea": "'x'", "uuid": "uuid7_floor(clock_timestamp())", "boolean": "false",
    "integer": "1", "smallint": "1", "bigint": "1", "double precision": "1",
    "timestamp with time zone": "clock_timestamp()", "jsonb": "'{}'", "text[]": "'{}'",
}  # fmt: skip
"""A value of each type: what the rows say besides whose they are does not matter here."""


@pytest.fixture
async def admin(database: Database) -> asyncpg.Connection:
    """A connection of the schema's owner, for which neither keys nor checks stand in the way."""
    connection = await database.connect()
    await connection.execute("SET session_replication_role = replica")
    checks = await connection.fetch(
        "SELECT conrelid::regclass::text AS relation, conname FROM pg_constraint"
        " WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND conparentid = 0"
        " AND NOT EXISTS (SELECT FROM pg_class WHERE oid = conrelid AND relispartition)"
    )
    for check in checks:
        await connection.execute(
            f"ALTER TABLE {check['relation']} DROP CONSTRAINT {check['conname']}"
        )
    return connection


async def names(connection: asyncpg.Connection, *, with_org: bool) -> list[str]:
    rows = await connection.fetch(TABLES)
    return sorted(row["name"] for row in rows if row["has_org"] is with_org)


async def add_row(connection: asyncpg.Connection, table: str, **known: str) -> None:
    """Add a row of a table with these values, SQL texts, and with some for all else it needs."""
    columns = {}
    for column in await connection.fetch(COLUMNS, table):
        usual = f"'{column['first_label']}'" if column["kind"] == "e" else None
        columns[column["name"]] = usual or VALUES[column["type"]]
    columns |= known
    await connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE"
        f" VALUES ({', '.join(columns.values())})"
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def fill(connection: asyncpg.Connection) -> None:
    """Add to each table a row of each org."""
    for number, org in enumerate(ORGS, start=1):
        key = f"uuid7_floor(clock_timestamp() - {number} * interval '1 ms')"
        run = f"'{await connection.fetchval(f'SELECT {key}')}'"
        ids = {"run_id": run, "workflow_id": str(number), "migration_id": run, "erasure_id": run}
        ids["key_id"] = quoted(str(number))
        for table in await names(connection, with_org=True):
            known = {"org": quoted(org)}
            taken = await connection.fetch(COLUMNS, table)
            known |= {c["name"]: ids[c["name"]] for c in taken if c["name"] in ids}
            known |= {"org": quoted(org)}
            if table == "workflows":
                known["workflow_id"] = str(number)
            if table == "erasures":
                known["subject_hash"] = quoted(str(uuid.uuid4()))
            await add_row(connection, table, **known, **_distinct(table, number))
        for table, by in HANGING.items():
            await add_row(connection, table, **{by: ids[by]}, **_distinct(table, number))


def _distinct(table: str, number: int) -> dict[str, str]:
    """Return what keeps rows of several orgs apart where the org is no part of the key."""
    if table == "api_key_secrets":
        return {"prefix": quoted(str(number))}
    return {"cause_id": "gen_random_uuid()"} if table == "causes" else {}


async def test_every_table_is_guarded_or_about_no_org(database: Database) -> None:
    rows = await (await database.connect()).fetch(TABLES)
    guarded = {row["name"] for row in rows if row["guarded"]}
    with_org = {row["name"] for row in rows if row["has_org"]}
    assert {row["name"] for row in rows} - guarded == OF_THE_INSTALLATION
    assert guarded - with_org == set(HANGING)


async def test_policies_let_ingest_read_its_org_and_the_writers_all(database: Database) -> None:
    rows = await (await database.connect()).fetch(
        "SELECT tablename, policyname, roles::text[], cmd, qual FROM pg_policies"
    )
    own = [row for row in rows if row["policyname"] == "own_org"]
    assert all((row["roles"], row["cmd"]) == (["perdure_ingest"], "SELECT") for row in own)
    assert all("perdure.org" in row["qual"] or "EXISTS" in row["qual"] for row in own)
    others = [row for row in rows if row["policyname"] != "own_org"]
    assert {row["policyname"] for row in others} == {"all_orgs"}
    assert all("perdure_ingest" not in row["roles"] for row in others)
    assert {row["tablename"] for row in own} == {row["tablename"] for row in others}


async def test_nobody_has_rights_on_a_months_tables_but_the_coordinator_those_on_their_parents(
    database: Database,
) -> None:
    connection = await database.connect()
    await connection.execute("SELECT ensure_month('2031-01-01')")
    granted = await connection.fetch(MONTHS_RIGHTS)
    assert {one["grantee"] for one in granted} == {"perdure_coordinator"}
    assert [dict(one) for one in granted if one["rights"] != one["parents_rights"]] == []


async def test_views_read_as_whoever_asks(database: Database) -> None:
    connection = await database.connect()
    views = await connection.fetch(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind = 'v' AND NOT coalesce(reloptions @> '{security_invoker=true}', false)"
    )
    assert views == []


@pytest.mark.breaks_r10("rows are made in bulk, without a word of what the machine would write")
async def test_without_an_org_ingest_sees_nothing_and_with_one_no_others_rows(
    database: Database, admin: asyncpg.Connection
) -> None:
    await fill(admin)
    ingest = await database.connect("ingest")
    pool = await database.open_pool("ingest", size=1)
    readable = [
        row["name"]
        for row in await admin.fetch(
            f"SELECT name FROM ({TABLES}) AS t WHERE has_table_privilege('perdure_ingest', name, 'SELECT')"  # noqa: E501
            " AND name <> ALL ($1)",
            list(OF_THE_INSTALLATION),
        )
    ]
    assert len(readable) > 30
    for table in readable:
        assert await ingest.fetchval(f"SELECT count(*) FROM {table}") == 0, table
    for org in ORGS:
        async with reading(pool, org) as connection:
            for table in readable:
                rows = await connection.fetch(f"SELECT * FROM {table}")
                assert len(rows) == 1, table
                assert {row.get("org", org) for row in rows} == {org}, table
    async with reading(pool, "nobody") as connection:
        for table in readable:
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0, table
    for table in readable:
        assert await pool.fetchval(f"SELECT count(*) FROM {table}") == 0, table


@pytest.mark.breaks_r10("steps are made without what would move them on, to be found")
async def test_the_view_of_what_is_stuck_shows_an_org_its_own(
    database: Database, admin: asyncpg.Connection
) -> None:
    await fill(admin)
    await admin.execute("UPDATE runs SET status = 'running', paused = false")
    await admin.execute("DELETE FROM outbox")
    pool = await database.open_pool("ingest", size=1)
    for org in ORGS:
        async with reading(pool, org) as connection:
            rows = await connection.fetch("SELECT org FROM no_way_forward")
        assert {row["org"] for row in rows} == {org}
    assert await pool.fetch("SELECT org FROM no_way_forward") == []


async def test_nothing_is_left_of_an_org_when_its_reading_is_over(database: Database) -> None:
    pool = await database.open_pool("ingest", size=1)
    for query in ("SHOW perdure.org", "SELECT 1/0"):
        with contextlib.suppress(asyncpg.DivisionByZeroError):
            async with reading(pool, "acme") as connection:
                assert await connection.fetchval(query) == "acme"
    assert await pool.fetchval("SELECT current_setting('perdure.org', true)") == ""


async def test_a_reading_writes_nothing(database: Database) -> None:
    pool = await database.open_pool("coordinator", size=1)
    async with reading(pool, "default") as connection:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("DELETE FROM outbox")


async def test_what_is_about_all_orgs_is_told_by_functions_of_its_own(database: Database) -> None:
    admin = await database.connect()
    await admin.execute(
        "INSERT INTO audit_log (org, actor, action, target, details)"
        " VALUES (NULL, 'ann', 'lane.put', 'io', '{}'), ('default', 'bob', 'x', 'y', '{}')"
    )
    ingest = await database.connect("ingest")
    assert [tuple(row) for row in await ingest.fetch("SELECT * FROM org_weights()")] == [
        ("default", 1)
    ]
    lines = await ingest.fetch("SELECT actor FROM installation_audit(1000, 10, '', '')")
    assert [line["actor"] for line in lines] == ["ann"]
    assert (
        await ingest.fetch("SELECT * FROM runs_past('{x}', ARRAY[gen_random_uuid()], '{0}')") == []
    )
    for role in ("relay", "timer", "sweeper"):
        connection = await database.connect(role)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM installation_audit(1000, 10, '', '')")
