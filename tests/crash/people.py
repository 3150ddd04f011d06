"""Scenarios about people and money: suppressions, erasures, budgets, members and their keys."""

from __future__ import annotations

import asyncio
import json
import uuid

from perdure import Client
from perdure_testkit.waiting import eventually

from tests.crash.matrix import Entry
from tests.crash.stage import Stage


async def by_suppressing(stage: Stage, entry: Entry) -> None:
    """Work about somebody is forbidden: it is, once, whoever was told."""
    subject = f"{uuid.uuid4()}@example.org"
    stage.arm(entry)
    suppressing = asyncio.create_task(stage.client.consent.suppress(subject))
    await stage.crash(entry)
    await suppressing
    assert len(await stage.client.consent.suppressions_of(subject)) == 1


async def by_erasing(stage: Stage, entry: Entry) -> None:
    """A person whom two runs are about is erased, one of them in the middle of its work."""
    name, subject = f"about_{uuid.uuid4().hex[:8]}", f"{uuid.uuid4()}@example.org"
    hold = {"hold": {"task": {"handler": "test.hold"}}}
    document = {"name": name, "subject": subject, "nodes": hold}
    await stage.client.publish_workflow(json.dumps(document))
    first, held = await stage.start_holding(name)
    held.let_go()
    await stage.ends(first)
    second, holding = await stage.start_holding(name)
    stage.arm(entry)
    erasing = asyncio.create_task(stage.client.consent.erase(subject))
    await stage.crash(entry)
    erasure_id = (await erasing).erasure_id
    await eventually(lambda: _is_erased(stage, erasure_id), what="both runs are erased")
    holding.let_go()
    for run_id in (first, second):
        assert (await stage.client.get_run(run_id)).input == b'{"perdure":"erased"}'


async def _is_erased(stage: Stage, erasure_id: str) -> bool:
    erasure = await stage.client.consent.erasure(erasure_id)
    return erasure.HasField("all_sent_at") and (erasure.pending, erasure.erased) == (0, 2)


async def by_a_budget(stage: Stage, entry: Entry) -> None:
    """A budget is raised on which a step is parked: it goes on, whoever was told."""
    name = f"paid_{uuid.uuid4().hex[:8]}"
    nodes = {"ask": {"task": {"handler": "test.echo"}, "cost": 1}}
    await stage.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    await stage.client.budgets.put(name, "0", workflow=name)
    run_id = (await stage.client.start_run(name)).run_id
    await eventually(lambda: _is_parked_on(stage, name), what="the step is parked")
    stage.arm(entry)
    raising = asyncio.create_task(stage.client.budgets.put(name, "1", workflow=name))
    await stage.crash(entry)
    await raising
    await stage.ends(run_id)
    assert (await stage.client.budgets.get(name)).spent == "1.00"


async def _is_parked_on(stage: Stage, budget: str) -> bool:
    return (await stage.client.budgets.get(budget)).parked_steps == 1


async def by_looking_up(stage: Stage, entry: Entry) -> None:
    """The lists that somebody is on are asked for."""
    stage.arm(entry)
    looking = asyncio.create_task(stage.client.consent.suppressions_of("nobody"))
    await stage.crash(entry)
    assert not await looking


async def by_making_a_member(stage: Stage, entry: Entry) -> None:
    """Somebody becomes a member: once, whoever was told, and told once in the audit log."""
    member = f"{uuid.uuid4()}@example.org"
    stage.arm(entry)
    making = asyncio.create_task(stage.client.members.put(member, ["viewer"]))
    await stage.crash(entry)
    assert list((await making).roles) == ["viewer"]
    assert len([line async for line in stage.client.audit.entries(target=member)]) == 1


async def by_making_a_key(stage: Stage, entry: Entry) -> None:
    """A key is made: its secret works, whoever was told, and it is told once in the audit log."""
    name = f"k-{uuid.uuid4().hex[:8]}"
    stage.arm(entry)
    making = asyncio.create_task(stage.client.keys.create(name, ["viewer"]))
    await stage.crash(entry)
    secret = (await making).secret
    async with Client(stage.client.address, api_key=secret) as client:
        assert [run async for run in client.list_runs(workflow="none")] == []
    assert len([line async for line in stage.client.audit.entries(target=name)]) == 1
