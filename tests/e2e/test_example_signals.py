"""Signals through all six processes: the examples as a reader runs them, and what doctor says."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from perdure import Client, PerdureApiError, StartSignal, StepStatus
from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

EXAMPLES = Path(__file__).parents[2] / "examples"


async def publish(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.client.publish_workflow((EXAMPLES / name).read_bytes())


async def waits(client: Client, run_id: str, node: str) -> bool:
    run = await client.get_run(run_id)
    return any(step.node == node and step.HasField("waits_for") for step in run.steps)


def new_number() -> int:
    return uuid.uuid4().int % 10**9


async def start_offer(scene: Scene, offer: int, stands_for: str = "1h") -> str:
    await publish(scene, "human_reply/workflow.yaml")
    given = {"offer": offer, "to": "ada@example.com", "stands_for": stands_for}
    return (await scene.client.start_run("offer", given)).run_id


async def test_the_offer_is_booked_when_a_person_answers_and_no_auto_responder_counts(
    scene: Scene,
) -> None:
    offer = new_number()
    run_id = await start_offer(scene, offer)
    await eventually(lambda: waits(scene.client, run_id, "reply"), what="the run waits")
    step = step_of(await scene.client.get_run(run_id), "reply")
    assert (step.waits_for.name, step.waits_for.key) == ("reply", f"offer-{offer}")
    assert step.HasField("deadline_at")
    key = f"offer-{offer}"
    ignored = await scene.client.signal_key(key, "reply", {"kind": "out_of_office"})
    assert (ignored.is_new, ignored.run_id) == (True, run_id)
    yes = {"kind": "yes", "by": "Ada"}
    first, again = [
        await scene.client.signal_key(key, "reply", yes, signal_id="mail-1") for _ in range(2)
    ]
    assert (first.is_new, again.is_new, again.run_id) == (True, False, run_id)
    run = await scene.completed(run_id)
    assert json.loads(run.output) == "booked for Ada"
    assert step_of(run, "withdraw").status == StepStatus.STEP_STATUS_SKIPPED


async def test_the_offer_is_withdrawn_when_nobody_answers_in_time(scene: Scene) -> None:
    run = await scene.completed(await start_offer(scene, new_number(), "500ms"))
    assert json.loads(run.output) == "withdrawn"
    assert step_of(run, "reply").error.code == "DEADLINE"
    texts = [line.text async for line in scene.client.history(run.run_id)]
    assert any("`reply` waits for the signal `reply` by the key" in text for text in texts)


async def test_a_payment_before_its_shipment_is_kept_for_it_f017(scene: Scene) -> None:
    await publish(scene, "signal_before_wait/payment.yaml", "signal_before_wait/shipment.yaml")
    order = new_number()
    paid = await scene.client.start_run("payment", {"order": order, "amount": 12.5})
    await scene.completed(paid.run_id)
    given = {"order": order, "packing": "100ms"}
    shipment = await scene.client.start_run("shipment", given)
    run = await scene.completed(shipment.run_id)
    assert json.loads(run.output) == {"order": order, "paid": 12.5}


async def test_a_payment_while_its_shipment_waits_reaches_it(scene: Scene) -> None:
    await publish(scene, "signal_before_wait/payment.yaml", "signal_before_wait/shipment.yaml")
    order = new_number()
    shipment = await scene.client.start_run("shipment", {"order": order, "packing": "0s"})
    await eventually(lambda: waits(scene.client, shipment.run_id, "paid"), what="it waits")
    await scene.client.start_run("payment", {"order": order, "amount": 1})
    assert json.loads((await scene.completed(shipment.run_id)).output)["paid"] == 1


async def test_a_start_with_a_signal_is_one_run_that_gets_it_once_f022(scene: Scene) -> None:
    nodes = {"wait": {"signal": {"name": "go"}}}
    run_id = await scene.start(nodes)
    workflow = (await scene.client.get_run(run_id)).workflow
    await scene.client.signal_run(run_id, "go")
    key, signal = str(uuid.uuid4()), StartSignal("go", {"n": 1}, "s")
    first, again = [
        await scene.client.start_run(workflow, start_key=key, signal=signal) for _ in range(2)
    ]
    assert (first.created, again.created, again.run_id) == (True, False, first.run_id)
    run = await scene.completed(first.run_id)
    assert json.loads(run.output) == {"wait": {"n": 1}}
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.start_run(workflow, start_key=key, signal=StartSignal("go"))
    assert refused.value.reason == "RUN_CLOSED"


async def test_a_callback_is_answered_from_outside_and_a_repeat_is_told_so(scene: Scene) -> None:
    nodes = {
        "ask": {"transform": "${run.callback('answer')}"},
        "answer": {"needs": ["ask"], "signal": {"name": "answer"}},
    }
    run_id = await scene.start(nodes)
    (ask,) = [step for step in (await scene.client.get_run(run_id)).steps if step.node == "ask"]
    token = json.loads(ask.output)
    first, again = [
        await scene.client.answer_callback(token, {"ok": True}, signal_id="one") for _ in range(2)
    ]
    assert (first.is_new, first.run_id, again.is_new) == (True, run_id, False)
    assert json.loads((await scene.completed(run_id)).output)["answer"] == {"ok": True}
    with pytest.raises(PerdureApiError) as refused:
        await scene.client.answer_callback(token[:-1])
    assert refused.value.reason == "CALLBACK_INVALID"


async def test_doctor_lists_a_wait_without_a_deadline_and_calls_it_no_trouble(
    scene: Scene,
) -> None:
    run_id = await scene.start({"wait": {"signal": {"name": "go", "key": "some-key"}}})
    checks = {check.name: check for check in (await scene.client.diagnose()).checks}
    found = checks["waits_without_deadline"]
    assert found.ok
    (finding,) = [one for one in found.findings if one.run_id == run_id]
    assert "waits for the signal go by the key some-key" in finding.what
    await scene.client.signal_key("some-key", "go")
    await scene.completed(run_id)
