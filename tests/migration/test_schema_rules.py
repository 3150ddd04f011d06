"""Rules that the schema itself keeps: who may write, what never changes, what an error names."""

from uuid import UUID

import asyncpg
import pytest
from perdure_runtime.errors import Aborted, AlreadyExists, Unavailable
from perdure_runtime.fail_points import declare
from perdure_store.classify import classify
from perdure_store.constraints import CONSTRAINTS
from perdure_store.transaction import write
from perdure_testkit.database import ROLES, Database

WRITE = declare("tests.schema_write")
PARTITIONED = {
    "runs",
    "run_tags",
    "steps",
    "attempts",
    "effects",
    "history",
    "scopes",
    "blocks",
    "children",
    "dead_letters",
    "effect_decisions",
    "run_subjects",
    "step_costs",
    "run_spending",
    "step_connections",
}
WRITES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
PUBLISH = """
INSERT INTO workflows (org, name, version, digest, document)
VALUES ('default', 'w', 1, sha256('d'), 'd') RETURNING workflow_id
"""
HISTORY = "INSERT INTO history (run_id, seq, at, kind) VALUES ($1, 1, clock_timestamp(), 'made')"


@pytest.fixture
async def connection(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def current_run_id(connection: asyncpg.Connection) -> UUID:
    run_id: UUID = await connection.fetchval("SELECT uuid7_floor(clock_timestamp())")
    return run_id


async def writable(connection: asyncpg.Connection, role: str) -> dict[str, set[str]]:
    """Return table to the writing rights of a role on the whole table."""
    rows = await connection.fetch(
        "SELECT c.relname, p AS privilege FROM pg_class AS c, unnest($2::text[]) AS p"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')"
        " AND has_table_privilege($1, c.oid, p)",
        f"perdure_{role}",
        WRITES,
    )
    rights: dict[str, set[str]] = {}
    for row in rows:
        rights.setdefault(row["relname"], set()).add(row["privilege"])
    return rights


async def test_r11_a_published_workflow_never_changes(connection: asyncpg.Connection) -> None:
    workflow_id = await connection.fetchval(PUBLISH)
    await connection.execute(
        "INSERT INTO workflow_nodes VALUES ($1, 'n', '{}', '{}', false)", workflow_id
    )

    for table in ("workflows", "workflow_nodes"):
        for statement in (
            f"UPDATE {table} SET workflow_id = DEFAULT"
            if table == "workflows"
            else f"UPDATE {table} SET node = 'm'",
            f"DELETE FROM {table}",
        ):
            with pytest.raises(AlreadyExists, match="as a new version"):
                await write(connection, WRITE, statement)


async def test_a_version_is_published_once(connection: asyncpg.Connection) -> None:
    await connection.execute(PUBLISH)

    with pytest.raises(AlreadyExists, match="publish a change as a new version"):
        await write(connection, WRITE, PUBLISH)


async def test_every_partitioned_table_has_this_month_and_the_next_two(
    connection: asyncpg.Connection,
) -> None:
    rows = await connection.fetch(
        "SELECT parent.relname, array_agg(child.relname::text ORDER BY child.relname) AS children"
        "  FROM pg_inherits AS i"
        "  JOIN pg_class AS parent ON parent.oid = i.inhparent AND parent.relkind = 'p'"
        "  JOIN pg_class AS child ON child.oid = i.inhrelid"
        " GROUP BY parent.relname"
    )
    endings = await connection.fetch(
        "SELECT to_char(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')"
        " + n * interval '1 month', 'YYYYMM') AS ending FROM generate_series(0, 2) AS n ORDER BY n"
    )

    expected = {table: [f"{table}_{row['ending']}" for row in endings] for table in PARTITIONED}
    assert {row["relname"]: row["children"] for row in rows} == expected


@pytest.mark.parametrize(
    ("instant", "month"),
    [
        ("2031-05-01T00:00:00Z", "2031-05-01"),
        ("2031-05-31T23:59:59.999Z", "2031-05-01"),
        ("2031-06-01T00:00:00Z", "2031-06-01"),
    ],
)
async def test_a_run_id_falls_into_the_month_of_its_instant_in_utc(
    connection: asyncpg.Connection, instant: str, month: str
) -> None:
    await connection.execute("SET timezone = 'Pacific/Auckland'")
    for first_day in ("2031-05-01", "2031-06-01"):
        await connection.execute(f"SELECT ensure_month('{first_day}')")
    run_id = await connection.fetchval(f"SELECT uuid7_floor('{instant}')")
    await connection.execute(HISTORY, run_id)

    partition = await connection.fetchval("SELECT tableoid::regclass::text FROM history")
    assert partition == "history_" + month[:7].replace("-", "")


async def test_a_month_is_made_once(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval("SELECT ensure_month('2031-05-01')")
    assert not await connection.fetchval("SELECT ensure_month('2031-05-01')")


async def test_a_missing_month_is_trouble_that_passes(connection: asyncpg.Connection) -> None:
    run_id = await connection.fetchval("SELECT uuid7_floor('2035-01-01T00:00:00Z')")

    with pytest.raises(Unavailable, match="a month has no partitions yet"):
        await write(connection, WRITE, HISTORY, run_id)


async def test_an_error_in_a_partition_names_the_parents_constraint(
    connection: asyncpg.Connection,
) -> None:
    run_id = await current_run_id(connection)
    await connection.execute(HISTORY, run_id)

    with pytest.raises(asyncpg.UniqueViolationError) as caught:
        await connection.execute(HISTORY, run_id)

    month = await connection.fetchval("SELECT to_char(min(month), 'YYYYMM') FROM months")
    assert caught.value.constraint_name == f"history_pkey_{month}"
    meaning = classify(caught.value)
    assert isinstance(meaning, Aborted)


async def test_every_constraint_and_unique_index_has_a_meaning(
    connection: asyncpg.Connection,
) -> None:
    rows = await connection.fetch(
        "SELECT k.conname::text AS name"
        "  FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid"
        " WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition"
        " AND k.contype IN ('p', 'u', 'f', 'c', 'x') AND c.relname <> 'schema_migrations'"
        " UNION SELECT i.relname::text FROM pg_index AS x"
        "  JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS c ON c.oid = x.indrelid"
        " WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND x.indisunique"
        " AND c.relname <> 'schema_migrations'"
    )

    assert set(CONSTRAINTS) == {row["name"] for row in rows} | {"workflows_immutable"}


async def test_the_worker_has_no_role(connection: asyncpg.Connection) -> None:
    roles = await connection.fetch("SELECT rolname FROM pg_roles WHERE rolname LIKE 'perdure\\_%'")

    assert {row["rolname"] for row in roles} == {f"perdure_{role}" for role in ROLES}


async def test_r13_every_role_has_its_time_outs(
    connection: asyncpg.Connection, database: Database
) -> None:
    limits = {
        "idle_in_transaction_session_timeout": "3s",
        "statement_timeout": "10s",
        "lock_timeout": "5s",
        "tcp_user_timeout": "10s",
    }
    for role in ROLES:
        settings = await connection.fetchval(
            "SELECT rolconfig FROM pg_roles WHERE rolname = $1", f"perdure_{role}"
        )
        assert {f"{name}={value}" for name, value in limits.items()} <= set(settings), role
        assert await (await database.connect(role)).fetchval("SHOW lock_timeout") == "5s", role


async def test_ingest_writes_nothing(connection: asyncpg.Connection, database: Database) -> None:
    assert await writable(connection, "ingest") == {}
    ingest = await database.connect("ingest")
    for statement in ("UPDATE runs SET priority = 1", "DELETE FROM outbox", PUBLISH):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await ingest.execute(statement)


async def test_the_relay_writes_only_outbox_marks_and_its_leadership(
    connection: asyncpg.Connection, database: Database
) -> None:
    assert await writable(connection, "relay") == {"leaders": {"INSERT", "UPDATE", "DELETE"}}
    relay = await database.connect("relay")
    await relay.execute("UPDATE outbox SET state = 'ready', sent_at = NULL, entry_id = NULL")
    for statement in ("UPDATE outbox SET priority = 1", "DELETE FROM outbox", PUBLISH):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await relay.execute(statement)


async def test_rights_on_single_columns_are_marks_alone(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT acl.grantee::regrole::text AS role, a.attrelid::regclass::text AS relation,"
        " array_agg(a.attname::text ORDER BY a.attname) AS columns"
        " FROM pg_attribute AS a CROSS JOIN LATERAL aclexplode(a.attacl) AS acl"
        " WHERE a.attrelid IN"
        " (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
        " GROUP BY 1, 2"
    )

    assert {(row["role"], row["relation"]): row["columns"] for row in rows} == {
        ("perdure_coordinator", "months"): ["closed"],  # only to lock what a retry relies on
        ("perdure_coordinator", "orgs"): ["weight"],
        ("perdure_coordinator", "members"): ["roles"],
        ("perdure_coordinator", "api_keys"): ["revoked_at", "revoked_by"],
        ("perdure_coordinator", "api_key_secrets"): ["expires_at", "last_used_at"],
        ("perdure_coordinator", "effect_decisions"): ["reason"],  # an erasure empties it
        ("perdure_coordinator", "epochs"): ["system_id", "timeline"],
        ("perdure_relay", "outbox"): ["entry_id", "sent_at", "state"],
        ("perdure_sweeper", "start_keys"): ["expires_at"],
        ("perdure_sweeper", "signals"): ["expires_at"],
        ("perdure_sweeper", "correlation_keys"): ["touched_at"],
    }


async def test_timer_and_sweeper_write_no_run_state(connection: asyncpg.Connection) -> None:
    leaders = {"leaders": {"INSERT", "UPDATE", "DELETE"}}
    assert await writable(connection, "timer") == leaders
    old = {key: {"DELETE"} for key in ("start_keys", "signals", "correlation_keys")}
    assert await writable(connection, "sweeper") == leaders | old


async def test_the_coordinator_changes_no_version_and_no_history(
    connection: asyncpg.Connection,
) -> None:
    rights = await writable(connection, "coordinator")

    for table in ("workflows", "workflow_nodes", "history", "attempts", "run_tags"):
        assert rights[table] == {"INSERT"}, table
    assert not any("TRUNCATE" in granted for granted in rights.values())


async def test_only_the_sweeper_makes_months(database: Database) -> None:
    for role in ROLES:
        connection = await database.connect(role)
        if role == "sweeper":
            assert await connection.fetchval("SELECT ensure_month('2031-05-01')")
        else:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("SELECT ensure_month('2031-05-01')")
