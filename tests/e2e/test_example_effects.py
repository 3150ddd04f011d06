"""The example of a payment, a CRM and a fax, as a reader runs it: each breaks after its work."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from perdure.client_effects import run_of
from perdure_contracts.v1.effect_service_pb2 import EffectEntry
from perdure_testkit.waiting import eventually

from examples.payment_crm_fax.provider import SERVICES, Outside, serving
from tests.e2e.scene import END_SECONDS, SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

DOCUMENT = Path(__file__).parents[2] / "examples" / "payment_crm_fax" / "workflow.yaml"
BY_PHONE = '{"status": 201, "headers": {}, "body": {"id": "by-phone"}}'


async def perdure(scene: Scene, *arguments: str) -> str:
    """Run the command line against the scene's engine, and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perdure",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **scene.environment},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def start(scene: Scene, address: str) -> str:
    await scene.client.publish_workflow(DOCUMENT.read_bytes())
    given = {"order": "A-7", "cents": 990, "fax": "+44", "provider": address}
    return (await scene.client.start_run("payment_crm_fax", given)).run_id


async def in_review(scene: Scene, run_id: str) -> EffectEntry:
    """Wait until an effect of the run waits for a person."""
    found: list[EffectEntry] = []

    async def waits() -> bool:
        listed = scene.client.effects.list(run_id=run_id, status="needs_review")
        found.extend([entry async for entry in listed])
        return bool(found)

    await eventually(waits, what="an effect waits for a person", within=END_SECONDS)
    return found[0]


async def test_r8_payment_crm_and_fax_are_done_once_though_each_breaks_after_its_work(
    scene: Scene,
) -> None:
    outside = Outside(dropped=SERVICES)
    with serving(outside) as address:
        run_id = await start(scene, address)
        waiting = await in_review(scene, run_id)
        key = waiting.effect.key
        assert (run_of(key), waiting.node, waiting.effect.kind) == (run_id, "fax", "none")
        assert key in await perdure(scene, "effect", "list", "--status", "needs_review")
        assert f"perdure effect settle {key}" in await perdure(scene, "effect", "show", key)
        assert f"perdure effect show {key}" in await perdure(scene, "run", "show", run_id)
        told = ("--result", BY_PHONE, "--reason", "they have it", "--by", "ada")
        assert "settled" in await perdure(scene, "effect", "settle", key, *told)
        run = await scene.completed(run_id)
    assert json.loads(run.output) == {
        "payment": "payments-1",
        "contact": "contacts-1",
        "fax": "by-phone",
        "thanks": {"letter": "letters-1", "points": "points-1"},
    }
    assert {service: len(done) for service, done in outside.done.items()} == dict.fromkeys(
        SERVICES, 1
    )
    assert outside.asked == {"payments": 2, "contacts": 1, "faxes": 1, "letters": 2, "points": 1}
    assert outside.looked_up == {"contacts": 1, "points": 1}
    (decision,) = (await scene.client.effects.get(key)).decisions
    assert (decision.decision, decision.reason) == ("settled", "they have it")
    assert decision.actor.startswith("ada, told by key ")


async def test_a_fax_that_did_not_go_out_is_sent_when_a_person_says_so(scene: Scene) -> None:
    outside = Outside(dropped=frozenset({"faxes"}))
    with serving(outside) as address:
        run_id = await start(scene, address)
        key = (await in_review(scene, run_id)).effect.key
        await perdure(scene, "effect", "repeat", key)
        run = await scene.completed(run_id)
    assert json.loads(run.output)["fax"] == "faxes-2"
    assert outside.asked["faxes"] == 2


async def test_a_fax_that_is_given_up_fails_its_step(scene: Scene) -> None:
    outside = Outside(dropped=frozenset({"faxes"}))
    with serving(outside) as address:
        run_id = await start(scene, address)
        key = (await in_review(scene, run_id)).effect.key
        await perdure(scene, "effect", "fail", key, "--message", "the line is dead")
        run = await scene.ended(run_id)
    fax = step_of(run, "fax")
    assert (fax.error.code, fax.error.message) == ("EFFECT_GIVEN_UP", "the line is dead")


async def test_r8_the_effects_of_a_handler_are_done_once_though_each_breaks_after_its_work(
    scene: Scene,
) -> None:
    outside = Outside(dropped=frozenset({"letters", "points"}))
    with serving(outside) as address:
        task = {"handler": "thanks.send", "input": {"order": "A-8", "provider": address}}
        run_id = await scene.start({"thank": {"task": task, "retry": {"max": 5, "base": "100ms"}}})
        run = await scene.completed(run_id)
    assert json.loads(step_of(run, "thank").output) == {"letter": "letters-1", "points": "points-1"}
    assert outside.asked == {"letters": 2, "points": 1}
    assert outside.looked_up == {"points": 1}
    assert {effect.key.rpartition("/")[2]: effect.status for effect in run.effects} == {
        "letter": "settled",
        "points": "settled",
    }
