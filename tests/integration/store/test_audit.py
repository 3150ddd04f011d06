"""The audit log: lines by org, newest first, which no service can change."""

import json
from uuid import uuid4

import asyncpg
import pytest
from perdure_machine.migration import Plan
from perdure_store import run_migrations
from perdure_store.audit import audit, read_audit
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import PostgresPort

TASK = {"task": {"handler": "x"}}


async def add(connection: asyncpg.Connection, org: str | None, target: str) -> None:
    details = {"before": None, "after": {"shards": 2}}
    await audit(connection, org=org, actor="ann", action="lane.put", target=target, details=details)


async def test_lines_are_told_by_org_and_newest_first(database: Database) -> None:
    connection = await database.connect("coordinator")
    for org, target in ((None, "io"), ("acme", "x"), (None, "slow")):
        await add(connection, org, target)
    lines = await read_audit(connection, None, limit=10)
    assert [line.target for line in lines] == ["slow", "io"]
    assert lines[0].actor == "ann"
    assert lines[0].details == b'{"after": {"shards": 2}, "before": null}'
    older = await read_audit(connection, None, below=lines[0].audit_id, limit=10)
    assert [line.target for line in older] == ["io"]
    assert [line.target for line in await read_audit(connection, "acme", limit=10)] == ["x"]


@pytest.mark.parametrize("statement", ["UPDATE audit_log SET actor = ''", "DELETE FROM audit_log"])
async def test_what_it_says_cannot_be_changed_by_a_service(
    database: Database, statement: str
) -> None:
    connection = await database.connect("coordinator")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(statement)


async def test_a_migration_is_told_once_with_who_asked_for_it(
    port: PostgresPort, driver: Driver
) -> None:
    for nodes in ({"a": TASK}, {"b": TASK}):
        await driver.publish(nodes)
    from_id, to_id = await run_migrations.resolve(port.admin, ORG, driver.workflow, [1, 2])
    plan = Plan(uuid4(), from_id, 1, to_id, 2, {"a": "b"}, reason="moved", asked_by="ann")
    asked = run_migrations.Asked(ORG, driver.workflow, plan, None)
    for _ in range(2):
        await run_migrations.create(port.coordinator, asked)
    (line,) = await read_audit(port.admin, ORG, action="workflow.migrate", limit=10)
    assert (line.actor, line.target) == ("ann", driver.workflow)
    told = {"from_version": 1, "migration_id": str(plan.migration_id), "to_version": 2}
    assert json.loads(line.details) == told
