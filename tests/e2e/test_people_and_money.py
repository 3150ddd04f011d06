"""Suppressions, erasures and budgets from the shell, through all services."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE


async def shell(scene: Scene, *arguments: str) -> tuple[int, str]:
    """Run `perdure ...`; return its status and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **scene.environment},
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def publish(scene: Scene, **members: object) -> str:
    name = f"people_{uuid.uuid4().hex[:8]}"
    await scene.client.publish_workflow(json.dumps({"name": name, **members}))
    return name


async def test_somebody_is_suppressed_and_allowed_again_from_the_shell(scene: Scene) -> None:
    who = f"{uuid.uuid4().hex}@example.org"
    nodes = {"send": {"task": {"handler": "test.echo"}, "subject": who, "purpose": "marketing"}}
    name = await publish(scene, nodes=nodes)
    asked = ("--purpose", "marketing")
    assert await shell(scene, "suppression", "add", who.upper(), *asked) == (0, "1 added\n")
    status, told = await shell(scene, "suppression", "add", who, "nobody-else", *asked)
    assert (status, told) == (0, "1 added, 1 there already\n")
    status, told = await shell(scene, "suppression", "check", who)
    assert (status, "marketing" in told, who in told) == (1, True, False)
    run_id = (await scene.client.start_run(name)).run_id
    failed = await scene.ended(run_id)
    assert failed.error.code == "SUPPRESSED"
    status, told = await shell(scene, "suppression", "list", "--purpose", "marketing", "--json")
    assert (status, len(json.loads(told)) >= 2) == (0, True)
    assert await shell(scene, "suppression", "remove", who, *asked) == (0, "1 removed\n")
    assert await shell(scene, "suppression", "check", who) == (0, "on no list\n")
    await scene.completed((await scene.client.start_run(name)).run_id)


async def test_somebody_is_erased_and_erased_again_after_a_restore_from_the_shell(
    scene: Scene, tmp_path: Path
) -> None:
    who = f"{uuid.uuid4().hex}@example.org"
    nodes = {"keep": {"task": {"handler": "test.echo", "input": "${input}"}}}
    name = await publish(scene, nodes=nodes, subject="${input.who}")
    run_id = (await scene.client.start_run(name, {"who": who})).run_id
    await scene.completed(run_id)
    status, told = await shell(scene, "erase", "subject", who, "--dry-run")
    assert (status, told.startswith("1 run(s) with 1 step(s) would be erased")) == (0, True)
    status, told = await shell(scene, "erase", "subject", who, "--reason", "asked for")
    assert (status, "1 run(s) erased, 0 pending" in told) == (0, True)
    run = await scene.client.get_run(run_id)
    assert who not in str(run)
    status, told = await shell(scene, "erase", "list", "--json")
    assert status == 0
    (mine,) = [one for one in json.loads(told) if one.get("reason") == "asked for"]
    status, told = await shell(scene, "erase", "show", mine["erasure_id"])
    assert (status, "1 run(s) erased" in told) == (0, True)
    kept = tmp_path / "erasures.json"
    kept.write_text(json.dumps([mine]), encoding="utf-8")
    restored = (await scene.client.start_run(name, {"who": who})).run_id
    await scene.completed(restored)
    status, told = await shell(scene, "erase", "again", "--from", str(kept))
    assert (status, "run(s) erased" in told) == (0, True)
    assert who not in str(await scene.client.get_run(restored))


async def test_a_budget_is_set_and_raised_from_the_shell(scene: Scene) -> None:
    name = await publish(scene, nodes={"ask": {"task": {"handler": "test.echo"}, "cost": "0.25"}})
    budget = name.replace("_", "-")
    asked = ("budget", "put", budget, "--workflow", name, "--currency", "EUR")
    status, told = await shell(scene, *asked, "--amount", "0.20")
    assert (status, "0.20 EUR" in told, "total" in told) == (0, True, True)
    run_id = (await scene.client.start_run(name)).run_id

    async def is_parked() -> bool:
        return (await scene.client.budgets.get(budget)).parked_steps == 1

    await eventually(is_parked, what="the step is parked")
    status, told = await shell(scene, *asked, "--amount", "1")
    assert status == 0
    await scene.completed(run_id)
    status, told = await shell(scene, "budget", "show", budget, "--json")
    assert status == 0
    shown = json.loads(told)
    assert (shown["spent"], shown["amount"]) == ("0.25", "1.00")
    status, told = await shell(scene, "budget", "list")
    assert (status, budget in told) == (0, True)
    status, told = await shell(scene, "budget", "show", "no-such-budget")
    assert (status, "BUDGET_NOT_FOUND" in told) == (1, True)
