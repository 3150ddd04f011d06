"""How the fail points of connections are reached."""

from __future__ import annotations

import asyncio
import json
import uuid
from uuid import UUID

from perdure_contracts.v1.connection_service_pb2 import PutConnectionRequest
from perdure_testkit.waiting import eventually

from tests.crash.matrix import Entry
from tests.crash.stage import Stage


async def by_connecting(stage: Stage, entry: Entry) -> None:
    """A step is parked because its connection does not exist, and comes back when it does."""
    name = await _publish(stage)
    stage.arm(entry)
    connecting = asyncio.create_task(_connect(stage, name))
    await stage.crash(entry)
    await stage.ends(await connecting)


async def by_repairing(stage: Stage, entry: Entry) -> None:
    """A step is parked on a connection that somebody disabled, until somebody repairs it."""
    name = await _publish(stage)
    await stage.client.connections.put(PutConnectionRequest(name=name))
    await stage.client.connections.disable(name)
    run_id = (await stage.client.start_run(name)).run_id
    await _is_parked(stage, run_id)
    stage.arm(entry)
    repairing = asyncio.create_task(stage.client.connections.repair(name))
    await stage.crash(entry)
    await repairing
    await stage.ends(run_id)


async def by_blocking(stage: Stage, entry: Entry) -> None:
    """More steps are queued than their connection lets begin at once."""
    name = await _publish(stage)
    await stage.client.connections.put(PutConnectionRequest(name=name, rate=2.0))
    stage.arm(entry)
    runs = [(await stage.client.start_run(name)).run_id for _ in range(3)]
    await stage.crash(entry)
    for run_id in runs:
        await stage.ends(run_id)


async def by_opening_an_account(stage: Stage, entry: Entry) -> None:
    """A handler asks for the credentials of a connection that its node does not name."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    await stage.client.connections.put(PutConnectionRequest(name=name))
    nodes = {"open": {"task": {"handler": "test.account", "input": {"connection": name}}}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    stage.arm(entry)
    run_id = (await stage.client.start_run(name)).run_id
    await stage.crash(entry)
    await stage.ends(run_id)


async def _publish(stage: Stage) -> str:
    """Publish a workflow of one step, and return its name, which is its connection's too."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    nodes = {"send": {"task": {"handler": "test.echo"}, "connection": name}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    return name


async def _connect(stage: Stage, name: str) -> str:
    run_id = (await stage.client.start_run(name)).run_id
    await _is_parked(stage, run_id)
    await stage.client.connections.put(PutConnectionRequest(name=name))
    return run_id


async def _is_parked(stage: Stage, run_id: str) -> None:
    query = "SELECT FROM steps WHERE run_id = $1 AND parked_on IS NOT NULL"

    async def parked() -> bool:
        return bool(await stage.place.fetch(query, UUID(run_id)))

    await eventually(parked, what="the step is parked")
