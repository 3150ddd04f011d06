"""Runs go on in another version while a worker holds their steps, asked for from the shell."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from typing import Any

import pytest
from perdure import PerdureApiError
from perdure_contracts.v1.workflow_service_pb2 import MigrateRunsRequest

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

HOLD = {"task": {"handler": "test.hold"}}
ECHO = {"task": {"handler": "test.echo", "input": 1}}
FIRST = {"pay": HOLD}
SECOND = {"charge": HOLD, "ship": {**ECHO, "needs": ["charge"]}}


async def publish(scene: Scene, *versions: Any) -> str:
    """Publish versions of one workflow; return its name."""
    name = f"migrated_{uuid.uuid4().hex[:8]}"
    for nodes in versions:
        await scene.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    return name


async def shell(scene: Scene, *arguments: str) -> tuple[int, str]:
    """Run `perdure workflow ...`; return its status and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", "workflow", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **scene.environment},
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_r11_f125_a_run_in_the_middle_of_a_step_is_migrated_from_the_shell(
    scene: Scene,
) -> None:
    name = await publish(scene, FIRST)
    holding = scene.new_holding()
    run_id = (await scene.client.start_run(name, holding.given)).run_id
    await holding.wait_running()
    await publish_again(scene, name, SECOND)
    asked = ("migrate", name, "--from", "1", "--to", "2", "--reason", "we ship now")
    status, told = await shell(scene, *asked, "--dry-run")
    assert status == 0
    assert "0 run(s) would move, 1 would stay" in told
    assert ("STEP_RUNS" in told, run_id in told) == (True, True)
    status, told = await shell(scene, *asked, "--map", "pay=charge", "--dry-run")
    assert (status, told) == (0, "1 run(s) would move, 0 would stay\n")
    status, told = await shell(scene, *asked, "--map", "pay=charge")
    assert status == 0
    assert "1 moved, 0 stay, 0 ended before, 0 pending" in told
    holding.let_go()
    run = await scene.completed(run_id)
    assert run.workflow_version == 2
    assert [step_of(run, node).step for node in ("charge", "ship")] == [1, 2]
    told_of = [one.text async for one in scene.client.history(run_id)]
    (moved,) = [text for text in told_of if text.startswith("the run went from version 1 to 2")]
    assert "(pay -> charge), asked by key " in moved
    assert moved.endswith(": we ship now")


async def publish_again(scene: Scene, name: str, nodes: Any) -> None:
    """Publish another version of a workflow."""
    await scene.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))


async def test_runs_that_stay_are_told_with_their_reasons(scene: Scene) -> None:
    name = await publish(scene, {"w": {"wait": "1h"}})
    run_id = (await scene.client.start_run(name)).run_id
    await publish_again(scene, name, {"other": ECHO})
    status, told = await shell(scene, "migrate", name, "--from", "1", "--to", "2")
    assert status == 1
    assert ("1 stay" in told, run_id in told, "the new version lacks it" in told) == (True,) * 3
    (_, migration_id), *_ = [line.split(":")[0].split() for line in told.splitlines()]
    status, again = await shell(scene, "migration", migration_id)
    assert (status, again) == (1, told)
    (found,) = [one async for one in scene.client.migrations.runs(migration_id)]
    assert [one.code for one in found.refusals] == ["NODE_REMOVED"]
    await scene.client.cancel_run(run_id)


async def test_a_migration_that_cannot_be_is_refused_at_the_door(scene: Scene) -> None:
    name = await publish(scene, {"a": ECHO}, {"b": ECHO})
    status, told = await shell(scene, "migrate", name, "--from", "1", "--to", "2", "--map", "x=b")
    assert status == 1
    assert "has no node `x`" in told
    for request, reason in (
        (MigrateRunsRequest(workflow=name, from_version=1, to_version=9), "WORKFLOW_NOT_FOUND"),
        (MigrateRunsRequest(workflow=name, from_version=1, to_version=1), "FIELD_INVALID"),
        (MigrateRunsRequest(from_version=0, run_ids=["x"], migration_id="y"), "FIELD_INVALID"),
    ):
        with pytest.raises(PerdureApiError) as caught:
            await scene.client.migrations.begin(request)
        assert caught.value.reason == reason
    with pytest.raises(PerdureApiError) as caught:
        await scene.client.migrations.get(str(uuid.uuid4()))
    assert caught.value.reason == "MIGRATION_NOT_FOUND"


async def test_a_dry_run_of_many_runs_comes_in_pages(scene: Scene) -> None:
    name = await publish(scene, {"w": {"wait": "1h"}}, {"w": {"wait": "1h"}, "b": ECHO})
    started = [(await scene.client.start_run(name, version=1)).run_id for _ in range(5)]
    request = MigrateRunsRequest(workflow=name, from_version=1, to_version=2, page_size=2)
    found = [one.run_id async for one in scene.client.migrations.check(request)]
    assert found == sorted(started)
    for run_id in started:
        await scene.client.cancel_run(run_id)
