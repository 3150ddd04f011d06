"""Queries that run often look rows up by index, however large the tables are (F111).

Plans are the generic ones, as a connection that has run long uses them, under the service's role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from perdure_store.apply import plain, plain_starts, waits
from perdure_store.apply.children import WRITE_CHILDREN
from perdure_store.apply.hand_overs import WRITE_HAND_OVERS
from perdure_store.apply.rowsets import Given
from perdure_store.apply.write import WRITE
from perdure_store.apply.write_scopes import WRITE_SCOPES
from perdure_store.org_reads import reading
from perdure_store.pool import Connection
from perdure_store.reads.runs import LARGEST_ID
from perdure_store.sql import sql
from perdure_testkit.database import Database

RUNS = 10_000

LARGE = re.compile(
    r"(runs|run_tags|steps|scopes|blocks|attempts|effects|history|outbox|timers|start_keys|children)(_\d{6})?"
)

FILL = f"""
INSERT INTO runs (run_id, org, workflow_id, workflow, workflow_version, input, created_at, age_at)
SELECT (left(uuid7_floor(now())::text, 24) || lpad(to_hex(number), 12, '0'))::uuid,
       'org' || number % 50, 1, 'w', 1, '{{}}', now(), now() + interval '30 d'
  FROM generate_series(1, {RUNS}) AS number;
INSERT INTO steps (run_id, step, org, node, kind, status, lane, owner, created_at, ended_at)
SELECT run_id, 1, org, 'a', 'task', 'completed', 'io', 'shared', now(), now() FROM runs;
INSERT INTO steps (run_id, step, org, node, kind, status, lane, owner, fence, lease_id, worker,
                   lease_expires_at, created_at, started_at)
SELECT run_id, 2, org, 'b', 'task', 'running', 'io', 'shared', 1, run_id, 'w',
       now() + interval '1 h', now(), now() - interval '1 h' FROM runs;
INSERT INTO steps (run_id, step, org, node, kind, status, created_at)
SELECT run_id, 3, org, 'c', 'wait', 'waiting', now() FROM runs;
INSERT INTO steps (run_id, step, org, node, kind, status, lane, owner, created_at)
SELECT run_id, 4, org, 'd', 'task', 'queued', 'io', 'shared', now() FROM runs;
INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, created_at)
SELECT org, run_id, 4, 'io', 'shared', 1, 0, now() FROM runs;
INSERT INTO timers (org, run_id, step, kind, due_at, next_try)
SELECT org, run_id, 3, 'wait', now() + interval '1 h', now() + interval '1 h' FROM runs;
INSERT INTO scopes (run_id, scope, generation, owner, index, status)
SELECT run_id, 'c[' || number || ']', 0, 3, number, 'pending'
  FROM runs, generate_series(0, 3) AS number;
INSERT INTO blocks (run_id, step, generation, total, at_once)
SELECT run_id, 3, 0, 4, 4 FROM runs;
INSERT INTO children (run_id, step, org, workflow, version, on_parent_end, status, child_run)
SELECT run_id, 3, org, 'w', 1, 'cancel', 'running', run_id FROM runs;
INSERT INTO history (run_id, seq, at, kind)
SELECT run_id, seq, now(), 'line' FROM runs, generate_series(1, 3) AS seq;
INSERT INTO start_keys (org, start_key, run_id, digest, created_at, expires_at)
SELECT org, run_id::text, run_id, '', now(), now() + interval '1 h' FROM runs;
DO $$
DECLARE
    filled text;
BEGIN -- those that are empty were never analysed, as it is when a month begins
    FOR filled IN
        SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
    LOOP
        EXECUTE 'ANALYZE ' || filled;
    END LOOP;
END
$$;
"""

BY_ROLE = {
    "coordinator": [
        "apply.lock_free_runs",
        "apply.lock_runs",
        "apply.load_steps",
        "apply.load_nodes",
        "apply.load_unfinished",
        "apply.load_reopening",
        "apply.load_compensable",
        "standing.let_timers_go",
        "standing.hold_timers",
        "dead_letters.drop",
        "apply.load_attempts",
        "apply.load_timers",
        "apply.load_inputs",
        "apply.write",
        "hand_overs.write",
        "scopes.write",
        "scopes.load_scopes",
        "scopes.load_blocks",
        "scopes.load_owners",
        "scopes.load_open_inside",
        "children.load",
        "children.load_leaving",
        "children.write",
        "children.forgo",
        "children.of_key",
        "leases.renew",
        "starts.claim_keys",
        "starts.holders",
        "timers.put_off",
        "timers.drop_orphans",
    ],
    "ingest": ["jobs.page"],
    "timer": ["timers.soonest", "timers.in_turn"],
    "sweeper": [
        "sweeps.expired_leases",
        "sweeps.old_runs",
        "sweeps.unfinished_page",
        "sweeps.no_way_forward",
        "sweeps.drop_start_keys",
    ],
}

DOOR_READS = {
    "reads.run_snapshots": "ARRAY[{org}], ARRAY[{run}::uuid], '{{-1}}', true, ''",
    "reads.published": "{org}, {run}, 'answer'",
    "reads.run_payload_bytes": "{run}, ''",
    "reads.list_scopes": "{org}, {run}, 3, 0, 100",
    "reads.run_exists": "{org}, {run}",
    "reads.run_history": "{run}, 0, 100",
    "reads.list_runs": "{org}, {last}, NULL, NULL, NULL, NULL, NULL, NULL, '{{}}', '{{}}', 51,"
    " NULL, NULL, NULL, NULL",
    "reads.no_way_forward": "{org}, 100",
    "reads.unsettled_effects": "{org}, 100, '1 min', '1 h'",
    "reads.work_not_picked": "{org}, 100, '1 min'",
    "reads.overdue_timers": "{org}, 100, '1 min'",
    "reads.parked_on_timers": "{org}, 100",
    "dead_letters.page": "{org}, NULL, NULL, {last}, 50, false",
    "connections.list": "{org}, '', '', 50",
    "connections.troubled": "{org}, 50",
}
"""What the doors read for one org, with arguments."""

OF_THE_DOCTOR = {"reads.no_way_forward", "reads.unsettled_effects"}
"""Who reads all that is open, with these policies or without."""

MONTHLY = {
    "hand_overs.write": WRITE_HAND_OVERS,
    "plain.start": plain_starts.START,
    "plain.take_up": plain.TAKE_UP,
    "plain.end": plain.END,
    "plain.end_waits": waits.END,
}
"""Queries on the tables of a month, whose arguments are rows."""

STATEMENTS = {
    "apply.write": WRITE,
    "scopes.write": WRITE_SCOPES,
    "children.write": WRITE_CHILDREN,
    "plain.load_waits": waits.LOAD,
}
"""Other queries whose arguments are rows."""

VALUES = {"uuid": "gen_random_uuid()", "bytea": "'x'", "text": "'x'"} | dict.fromkeys(
    ("bigint", "integer", "smallint", "float8"), "1"
)
"""A value of each type."""

NO_RUN = "'00000000-0000-0000-0000-000000000000'"

LAST_RUN = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

LOOKS = {
    "jobs.page": (
        "ingest",
        f"'org1', {NO_RUN}, {LAST_RUN}, NULL, NULL, NULL, NULL, '{{}}', '{{}}', false, 101",
    ),
    "timers.soonest": ("timer", "false, 0.05, 1001"),
    "timers.in_turn": ("timer", "false, 0.05, '', 20, 1000"),
    "sweeps.expired_leases": ("sweeper", f"'epoch', {NO_RUN}, 0, 500, 3600"),
    "sweeps.old_runs": ("sweeper", f"'epoch', {NO_RUN}, 500"),
    "sweeps.drop_start_keys": ("sweeper", "1000"),
}
"""Who looks for what is due, or rare, with arguments."""


def text_of(name: str, given: Given = Given.HIDDEN) -> str:
    """Return a query's text, if it is monthly on the tables of this month."""
    if name in MONTHLY:
        return MONTHLY[name].of(f"{datetime.now(UTC):%Y%m}", given).text
    return STATEMENTS[name].text if name in STATEMENTS else sql(name)


async def explain(
    connection: Connection, text: str, arguments: str = "", options: str = "", generic: bool = True
) -> dict[str, Any]:
    """Return a query's plan; `arguments` are SQL, by default nulls; not `generic`: for them."""
    count = max(int(place) for place in re.findall(r"\$(\d+)", text))
    if generic:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE explained AS {text}")
    call = arguments or ", ".join(["NULL"] * count)
    plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON{options}) EXECUTE explained ({call})")
    (tree,) = json.loads(plan)
    found: dict[str, Any] = tree["Plan"]
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def whole_scans(plan: dict[str, Any]) -> list[str]:
    """Name the large tables of which all is read."""
    found = []
    for node in nodes(plan):
        table = node.get("Relation Name", "")
        if "Scan" not in node["Node Type"] or not LARGE.fullmatch(table):
            continue
        if node["Node Type"] == "Bitmap Heap Scan":
            continue  # its index scans stand below it
        if not any(key in node for key in ("Index Cond", "TID Cond")):
            found.append(f"{node['Node Type']} on {table}")
    for node in nodes(plan):
        if node["Node Type"] == "Bitmap Index Scan" and "Index Cond" not in node:
            found.append(f"Bitmap Index Scan on {node['Index Name']}")
    return found


@pytest.mark.breaks_r10("rows are made in bulk, without a word of what the machine would write")
async def test_f111_no_frequent_query_reads_a_whole_table(database: Database) -> None:
    admin = await database.connect()
    await admin.execute(FILL)

    found = {}
    for role, names in BY_ROLE.items():
        for name in names:
            connection = await database.connect(role)
            if whole := whole_scans(await explain(connection, text_of(name))):
                found[name] = whole
            await connection.close()
    assert found == {}


@pytest.mark.parametrize("given", [Given.ONE, Given.HIDDEN])
@pytest.mark.parametrize("name", [*MONTHLY, "plain.load_waits"])
async def test_a_plain_event_is_not_planned_anew_each_time(
    database: Database, name: str, given: Given
) -> None:
    """The server keeps the plan for any rows where none is cheaper for the one given."""
    text = text_of(name, given)
    types = re.findall(r"\$(\d+)::(\w+(?:\[\])?)", text)
    one_row = {int(place): VALUES.get(kind, "'{NULL}'") for place, kind in types}
    arguments = ", ".join(one_row[place] for place in sorted(one_row))
    costs = []
    for generic in (True, False):
        connection = await database.connect("coordinator")
        plan = await explain(connection, text, arguments, generic=generic)
        costs.append(plan["Total Cost"])
    assert costs[0] == pytest.approx(costs[1], rel=0.001)


@pytest.mark.breaks_r10("rows are made in bulk, without a word of what the machine would write")
async def test_p5_what_is_far_off_costs_nothing(database: Database) -> None:
    admin = await database.connect()
    await admin.execute(FILL)

    blocks = {name: await blocks_read(database, name) for name in LOOKS}

    assert {name: read for name, read in blocks.items() if read > 400} == {}


async def blocks_read(database: Database, name: str) -> int:
    """Return how many blocks a look reads that finds nothing."""
    role, arguments = LOOKS[name]
    connection = await database.connect(role)
    await explain(connection, sql(name), arguments, ", ANALYZE")  # reads the catalogue once
    await connection.execute("DEALLOCATE explained")
    plan = await explain(connection, sql(name), arguments, ", ANALYZE, BUFFERS")
    assert plan["Actual Rows"] == 0
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.breaks_r10("rows are made in bulk, without a word of what the machine would write")
async def test_row_level_security_leaves_the_doors_reads_their_indexes(database: Database) -> None:
    admin = await database.connect()
    await admin.execute(FILL)
    run = await admin.fetchval("SELECT run_id FROM runs WHERE org = 'org7' LIMIT 1")
    given = {"org": "'org7'", "run": f"'{run}'", "last": f"'{LARGEST_ID}'"}
    pool = await database.open_pool("ingest", size=1)

    found = {}
    for name, arguments in DOOR_READS.items():
        asked = arguments.format(**given)
        usual = await scans_for(admin, name, asked)
        async with reading(pool, "org7") as connection:
            whole = await scans_for(connection, name, asked)
        if more := set(whole) - set(usual if name in OF_THE_DOCTOR else ()):
            found[name] = more
    assert found == {}


async def scans_for(connection: Connection, name: str, arguments: str) -> list[str]:
    plan = await explain(connection, sql(name), arguments, generic=False)
    await connection.execute("DEALLOCATE explained")
    return whole_scans(plan)
