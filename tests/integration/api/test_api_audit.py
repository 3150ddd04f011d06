"""Who did what: every order is told, by name, in the transaction that carries it out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from perdure import Client
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

DOCUMENT = json.dumps({"name": "w", "nodes": {"a": {"wait": "1h"}}})


@pytest.fixture
async def actor(database: Database, ops_key: str) -> str:
    """What the audit log calls the key `ops`."""
    connection = await database.connect()
    key_id = await connection.fetchval("SELECT key_id FROM api_keys WHERE name = 'ops'")
    return f"key ops ({key_id})"


@pytest.fixture
async def ops_key(database: Database) -> str:
    return await give_key(await database.connect(), name="ops", roles=["operator"])


@pytest.fixture
async def ops(address: str, ops_key: str) -> AsyncIterator[Client]:
    async with Client(address, api_key=ops_key, timeout=20.0) as client:
        yield client


@pytest.fixture
async def admin(address: str, api_key: str) -> AsyncIterator[Client]:
    async with Client(address, api_key=api_key, timeout=20.0) as client:
        yield client


async def told(admin: Client, target: str) -> list[tuple[str, str]]:
    """Who did what to something, oldest first."""
    lines = [line async for line in admin.audit.entries(target=target)]
    return [(line.actor, line.action) for line in reversed(lines)]


async def test_what_is_ordered_of_a_run_is_told_once_with_who_ordered_it(
    ops: Client, admin: Client, actor: str
) -> None:
    await ops.publish_workflow(DOCUMENT)
    await ops.publish_workflow(DOCUMENT)
    run_id = (await ops.start_run("w")).run_id
    await ops.pause_run(run_id, "look at it")
    await ops.pause_run(run_id, "look at it")
    await ops.resume_run(run_id)
    await ops.cancel_run(run_id, "not wanted")
    await ops.cancel_run(run_id, "not wanted")
    assert await told(admin, "w") == [(actor, "workflow.publish")]
    assert await told(admin, run_id) == [
        (actor, "run.pause"),
        (actor, "run.resume"),
        (actor, "run.cancel"),
    ]


async def test_the_history_names_who_and_why_and_the_log_keeps_no_reason_that_erasing_would_miss(
    ops: Client, admin: Client, actor: str
) -> None:
    await ops.publish_workflow(DOCUMENT)
    run_id = (await ops.start_run("w")).run_id
    await ops.terminate_run(run_id, "Maya asked for it")
    texts = [line.text async for line in ops.history(run_id)]
    assert f"the run was terminated by {actor}: Maya asked for it" in texts
    (line,) = [line async for line in admin.audit.entries(target=run_id)]
    assert (line.action, json.loads(line.details)) == ("run.terminate", {"workflow": "w"})


async def test_a_start_and_a_signal_are_no_orders(ops: Client, admin: Client) -> None:
    await ops.publish_workflow(DOCUMENT)
    run_id = (await ops.start_run("w")).run_id
    await ops.signal_run(run_id, "go", {})
    assert await told(admin, run_id) == []
