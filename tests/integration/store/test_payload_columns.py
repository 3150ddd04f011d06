"""Every column that may hold what somebody gave is erased, or named with the reason why not."""

from __future__ import annotations

from uuid import UUID

from perdure_machine.events import SendSignal
from perdure_machine.mailbox import SignalState
from perdure_machine.node_error import ErrorClass
from perdure_machine.states import TimerKind
from perdure_testkit.engines.driver import Driver, new_signal_id
from perdure_testkit.engines.postgres import PostgresPort

SECRET = "ada-of-secret-street"
TASK = {"task": {"handler": "h", "input": "${input.to}"}}

ERASED = {
    "attempts": {"error"},
    "blocks": {"error"},
    "dead_letters": {"error", "node", "code"},
    "effects": {"result", "digest", "note"},
    "effect_decisions": {"reason"},
    "history": {"details"},
    "run_migration_outcomes": {"refusals"},
    "run_subjects": {"subject_hash", "purpose"},
    "run_tags": {"key", "value"},
    "runs": {"input", "output", "error", "tags", "start_key", "exclusive_key", "callback_secret"},
    "scopes": {"item", "carry", "output", "error"},
    "signals": {"data"},
    "steps": {"input", "output", "error"},
    "timers": {"details", "failure"},
}
"""Columns that an erasure replaces or whose rows it removes."""

_IDS = "made by the engine or an operator, of nobody"
_NAMES = "a name in a published definition, the same for all runs"
_KEPT = "a hash under a key that the database does not know, kept on purpose"
_SHORT = "goes with the retention after the end of its run; a caller's identifier, to be of nobody"
FREE = {
    "orgs": _IDS,
    "lanes": _IDS,
    "leaders": _IDS,
    "schema_migrations": _IDS,
    "workflows": _NAMES,
    "workflow_nodes": _NAMES,
    "workflow_lanes": _NAMES,
    "outbox": _IDS,
    "children": _NAMES,
    "signal_waits": "its rows go when the run ends, as an erased one does at once",
    "exclusive_waiters": "its rows go when the run ends",
    "exclusive_keys": "handed over or freed when the run ends",
    "correlation_keys": _SHORT,
    "start_keys": _SHORT,
    "effects": "facts about outside calls: they stay, for whoever has to settle them",
    "effect_decisions": "who decided what, kept as an audit",
    "run_migrations": "a plan, made by an operator",
    "run_migration_outcomes": _IDS,
    "suppressions": _KEPT,
    "erasures": _KEPT,
    "erasure_counts": _IDS,
    "budgets": _IDS,
    "budget_charges": _IDS,
    "members": "people who work with the engine, not subjects of its work; removed with them",
    "api_keys": "names of keys and of who made them",
    "api_key_secrets": "hashes of random bits",
    "audit_log": "what operators did; subjects stand there by their hash",
    "connections": _IDS,
    "connection_secrets": "credentials of the org, sealed; not of the subjects of its work",
    "connection_slots": _IDS,
    "causes": _IDS,
    "step_connections": "the name of a connection, which an operator made",
    "runs": _IDS,
    "run_tags": _IDS,
    "run_subjects": _IDS,
    "steps": _NAMES,
    "attempts": _IDS,
    "history": "the kind of line",
    "timers": _IDS,
    "scopes": "the path of nodes and numbers",
    "blocks": _IDS,
    "signals": "names and ids of signals; identifiers that callers choose",
    "dead_letters": _NAMES,
}
"""Why the other columns of a table are free of personal data, or may hold it for a while."""

HOLD_IT = {
    "runs", "run_tags", "start_keys", "steps", "attempts", "history", "scopes", "signals", "timers",
}  # fmt: skip
"""Where such a run leaves what it was given."""

COLUMNS = """
SELECT c.relname AS table_name, a.attname AS column_name
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND a.attnum > 0 AND NOT a.attisdropped
   AND a.atttypid IN ('bytea'::regtype, 'text'::regtype, 'text[]'::regtype, 'jsonb'::regtype)
"""


async def test_every_payload_column_is_erased_or_named_with_a_reason(port: PostgresPort) -> None:
    """A new table with texts or bytes has to say here what an erasure does to it."""
    columns: dict[str, set[str]] = {}
    for row in await port.admin.fetch(COLUMNS):
        columns.setdefault(row["table_name"], set()).add(row["column_name"])
    for table, erased in ERASED.items():
        assert erased <= columns[table], table
    others = {table for table, found in columns.items() if found - ERASED.get(table, set())}
    assert not others - FREE.keys()
    assert FREE.keys() | ERASED.keys() <= columns.keys()
    kept_bytes = {
        (row["table_name"], row["column_name"])
        for row in await port.admin.fetch(f"{COLUMNS} AND a.atttypid = 'bytea'::regtype")
        if row["column_name"] not in ERASED.get(row["table_name"], set())
    }
    assert kept_bytes == {
        ("workflows", "digest"),
        ("workflows", "document"),
        ("start_keys", "digest"),
        ("run_migrations", "plan"),
        ("suppressions", "subject_hash"),
        ("erasures", "subject_hash"),
        ("api_key_secrets", "digest"),
        ("audit_log", "details"),
        ("connection_secrets", "sealed"),
    }


async def tables_with_the_secret(port: PostgresPort) -> set[str]:
    found = set()
    for table in {row["table_name"] for row in await port.admin.fetch(COLUMNS)}:
        hex_of_it = SECRET.encode().hex()
        rows = await port.admin.fetch(f"SELECT t::text AS row FROM {table} AS t")
        if any(SECRET in row["row"] or hex_of_it in row["row"] for row in rows):
            found.add(table)
    return found


async def started(driver: Driver) -> UUID:
    """Start a run that leaves the secret wherever a run can."""
    child = Driver(driver.engine, driver.org)
    await child.publish({"c": TASK})
    each = {"one": {"task": {"handler": "h", "input": "${item}"}}}
    carry = {"x": {"init": "${input.to}", "next": "${carry.x}"}}
    again = {"p": {"task": {"handler": "h", "input": "${carry.x}"}}}
    await driver.publish(
        {
            "work": {**TASK, "retry": {"max": 3}},
            "each": {"for_each": {"in": "${input.list}", "nodes": each}},
            "again": {"repeat": {"until": "false", "max": 2, "carry": carry, "nodes": again}},
            "sub": {"run": {"workflow": child.workflow, "input": {"to": "${input.to}"}}},
            "tell": {"emit": {"name": "told", "key": "nobody", "data": "${input.to}"}},
            "wait": {"signal": {"name": "go", "deadline": "1h"}},
        },
        subject="${input.to}",
    )
    payload = f'{{"to":"{SECRET}","list":["{SECRET}"]}}'.encode()
    run = await driver.start(payload, tags={"who": SECRET}, start_key=f"order/{SECRET}")
    await driver.fail(await driver.acquire(run, "work"), ErrorClass.RETRYABLE, SECRET)
    await driver.send(run, "unasked", f'"{SECRET}"'.encode())
    return run


async def fire_all_but_letters(driver: Driver) -> None:
    """Deliver what is due, but not what runs send to others: that is still to be sent."""
    for _ in range(20):
        for timer in await driver.engine.timers():
            if timer.kind is not TimerKind.EMIT and timer.remaining <= 0:
                await driver.engine.fire(timer)


async def test_after_an_erasure_no_table_holds_what_the_run_was_given(
    driver: Driver, port: PostgresPort
) -> None:
    run = await started(driver)
    await fire_all_but_letters(driver)
    assert await tables_with_the_secret(port) == HOLD_IT
    await driver.engine.erase(driver.org, SECRET)
    await fire_all_but_letters(driver)
    assert await tables_with_the_secret(port) == {"start_keys"}
    assert (await driver.engine.run(run)).erased


async def test_a_payload_that_comes_after_the_erasure_stands_in_no_table(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish({"a": TASK, "b": TASK}, subject="${input.to}")
    run = await driver.start(f'{{"to":"{SECRET}"}}'.encode())
    first, second = await driver.acquire(run, "a"), await driver.acquire(run, "b")
    await driver.engine.erase(driver.org, SECRET)
    await driver.settle()
    await driver.succeed(first, f'"{SECRET}"'.encode())
    await driver.fail(second, ErrorClass.RETRYABLE, SECRET)
    signal = SignalState(new_signal_id(), "go", f'"{SECRET}"'.encode(), None)
    await driver.submit(run, SendSignal(signal))
    assert not await tables_with_the_secret(port)
