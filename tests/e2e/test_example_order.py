"""The example of an order, as a reader runs it: what was done is taken back when the rest fails."""

from __future__ import annotations

import json
from pathlib import Path

from perdure import RunStatus

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

DOCUMENT = Path(__file__).parents[2] / "examples" / "order_with_compensation" / "workflow.yaml"


async def ordered(scene: Scene, item: str) -> str:
    await scene.client.publish_workflow(DOCUMENT.read_bytes())
    given = {"item": item, "amount": 900}
    return (await scene.client.start_run("order_with_compensation", given)).run_id


async def test_an_order_that_is_shipped_is_kept(scene: Scene) -> None:
    run = await scene.completed(await ordered(scene, "book"))
    assert json.loads(run.output) == {"parcel": "parcel-with-book"}
    assert len(run.steps) == 3


async def test_an_order_that_cannot_be_shipped_is_taken_back_in_reverse(scene: Scene) -> None:
    run = await scene.ended(await ordered(scene, "piano"))
    assert (run.status, run.error.code) == (RunStatus.RUN_STATUS_FAILED, "TOO_HEAVY")
    assert run.uncompensated == 0
    refund, release = step_of(run, "charge.compensate"), step_of(run, "reserve.compensate")
    assert json.loads(refund.output) == {"refunded": "charge-of-900"}
    assert json.loads(release.output) == {"released": "reservation-of-piano"}
    assert refund.ended_at.ToNanoseconds() <= release.created_at.ToNanoseconds()
    assert refund.compensates == step_of(run, "charge").step
