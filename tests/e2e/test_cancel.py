"""A cancel closes the run at once; what runs hears of it at its next renewal."""

from __future__ import annotations

import pytest
from perdure import PerdureApiError, RunStatus
from perdure_testkit.provider import Behaviour
from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

TOLD_SECONDS = 10.0
"""A renewal comes within half a second; the rest is for a busy machine."""


async def test_a_running_step_hears_of_the_cancel_within_a_renewal_f034(scene: Scene) -> None:
    holding = scene.new_holding()
    nodes = {
        "hold": {"task": {"handler": "test.hold", "input": holding.given}},
        "after": {"needs": ["hold"], "task": {"handler": "test.echo"}},
    }
    run_id = await scene.start(nodes)
    await holding.wait_running()

    answer = await scene.client.cancel_run(run_id, "enough")

    assert answer.changed
    assert (await scene.client.get_run(run_id)).status == RunStatus.RUN_STATUS_CANCELLED
    await eventually(lambda: holding.was_told_to_stop, within=TOLD_SECONDS, what="it was told")
    assert not (await scene.client.cancel_run(run_id)).changed

    async def the_step_has_ended() -> bool:
        run = await scene.client.get_run(run_id)
        return step_of(run, "hold").HasField("ended_at")

    await eventually(the_step_has_ended, what="the step ended")
    assert "after" not in {step.node for step in (await scene.client.get_run(run_id)).steps}


async def test_a_cancel_in_backoff_drops_the_retry_f031_f032(scene: Scene) -> None:
    path = scene.new_path()
    scene.provider.script(path, *[Behaviour(works=False, status=429)] * 5)
    nodes = {
        "call": {
            "http": {"method": "POST", "url": scene.provider.url(path), "effect": "provider"},
            "retry": {"max": 5, "base": "60s"},
        }
    }
    run_id = await scene.start(nodes)
    await scene.provider.wait_called(path)

    async def backs_off() -> bool:
        run = await scene.client.get_run(run_id)
        return step_of(run, "call").HasField("due_at")

    await eventually(backs_off, what="the step backs off")

    await scene.client.cancel_run(run_id)

    async def ended() -> bool:
        run = await scene.client.get_run(run_id)
        return step_of(run, "call").HasField("ended_at")

    await eventually(ended, what="the step ended")
    timers = await scene.place.fetch("SELECT FROM timers WHERE run_id::text = $1", run_id)
    assert timers == []
    assert len(scene.provider.calls_of(path)) == 1


async def test_a_run_that_ended_otherwise_cannot_be_cancelled(scene: Scene) -> None:
    run_id = await scene.start({"only": {"task": {"handler": "test.echo"}}})
    await scene.completed(run_id)

    with pytest.raises(PerdureApiError) as refused:
        await scene.client.cancel_run(run_id)

    assert refused.value.reason == "RUN_CLOSED"
