"""The example of a CRM's account, from the shell as a reader runs it, and what else there is."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

from perdure_testkit.waiting import eventually

from examples.crm_account.provider import FIRST_TOKEN, SECOND_TOKEN, Crm, serving
from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

DOCUMENT = Path(__file__).parents[2] / "examples" / "crm_account" / "workflow.yaml"
BEARS = ("--slots", "2", "--rate", "20", "--burst", "2", "--max-failures", "3", "--open-for", "1")
CONTACTS = ["ada", "bob", "cy", "dee", "eve", "fay", "gil", "hal", "ivy", "joe"]


async def connection(scene: Scene, *arguments: str, given: object = None) -> tuple[int, str]:
    """Run `perdure connection ...`; return its status and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", "connection", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **scene.environment},
    )  # fmt: skip
    out, _ = await process.communicate(json.dumps(given).encode())
    assert process.returncode is not None
    return process.returncode, out.decode()


async def put(scene: Scene, address: str, token: str) -> tuple[int, str]:
    """Give the account a token, as the example's page says it."""
    shape = ("--base-url", address, "--scheme", "bearer", *BEARS, "--probe-path", "/contacts")
    return await connection(
        scene, "put", "crm", *shape, "--credentials", "-", given={"token": token}
    )


async def test_p8_an_account_limits_fails_and_is_reconnected_and_each_contact_is_entered(
    scene: Scene,
) -> None:
    crm = Crm()
    with serving(crm) as address:
        assert await put(scene, address, FIRST_TOKEN) == (0, "made\n")
        await scene.client.publish_workflow(DOCUMENT.read_bytes())
        run_id = (await scene.client.start_run("crm_account", {"contacts": CONTACTS})).run_id

        async def is_refused() -> bool:
            return bool((await scene.client.connections.get("crm")).parked)

        await eventually(is_refused, what="steps are parked on the account")
        status, told = await connection(scene, "list")
        assert (status, "reconnect" in told) == (0, True)
        assert await put(scene, address, SECOND_TOKEN) == (0, "changed\n")
        run = await scene.completed(run_id)
        status, told = await connection(scene, "probe", "crm")
        assert status == 0, told
    assert json.loads(run.output) == {"entered": 10, "known": 10}
    assert crm.contacts == dict.fromkeys(CONTACTS, 1)
    assert crm.most_at_once <= 2
    assert (crm.failed, crm.refused > 0) == (3, True)
    told_of_run = str(await scene.client.get_run(run_id))
    assert FIRST_TOKEN not in told_of_run
    assert SECOND_TOKEN not in told_of_run


async def test_an_account_is_made_shown_disabled_repaired_and_removed_from_the_shell(
    scene: Scene,
) -> None:
    name = f"mail-{uuid.uuid4().hex[:8]}"
    made = await connection(
        scene, "put", name, "--scheme", "basic", "--slots", "3", "--credentials", "-", "--json",
        given={"username": "u", "password": "pass-of-the-mail"},
    )  # fmt: skip
    assert made[0] == 0
    assert json.loads(made[1])["created"] is True
    status, told = await connection(scene, "show", name)
    assert (status, "3" in told, "pass-of-the-mail" in told) == (0, True, False)
    status, told = await connection(scene, "disable", name, "--json")
    assert (status, json.loads(told)["health"]) == (0, "disabled")
    status, told = await connection(scene, "repair", name, "--json")
    assert (status, json.loads(told)["health"]) == (0, "ok")
    assert await connection(scene, "delete", name) == (0, "deleted\n")
    status, told = await connection(scene, "show", name)
    assert (status, "CONNECTION_NOT_FOUND" in told) == (1, True)
    status, told = await connection(scene, "put", name, "--credentials", "-", given=["no object"])
    assert (status, "is not a JSON object of texts" in told) == (2, True)
