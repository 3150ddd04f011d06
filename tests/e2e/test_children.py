"""Runs with children, through all six processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from perdure import Run, RunStatus
from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

EXAMPLE = Path(__file__).parents[2] / "examples/parent_and_children"


async def children_of(scene: Scene, run: Run) -> dict[str, Run]:
    """Return a run's children by the nodes that started them."""
    nodes = {step.step: step.node for step in run.steps}
    listed = scene.client.list_runs(parent_run_id=run.run_id)
    return {nodes[child.parent_step]: child async for child in listed}


@pytest.mark.parametrize(
    ("large", "expected"),
    [
        (12, {"items": 12, "carrier": "freight"}),
        (30, {"split": 30, "because": "30 items of A-7 are more than one parcel takes"}),
    ],
)
async def test_the_example_of_a_parent_and_its_children_runs_to_its_end(
    scene: Scene, large: int, expected: dict[str, object]
) -> None:
    for name in ("parcel", "message", "order"):
        await scene.client.publish_workflow((EXAMPLE / f"{name}.yaml").read_text())
    given = {"order": "A-7", "small": 2, "large": large}
    run = await scene.completed((await scene.client.start_run("order", given)).run_id)
    children = await children_of(scene, run)
    assert set(children) == {"small", "large", "tell"}
    first, second = json.loads(run.output)["parcels"]
    assert first == {
        "parcel": f"A-7/{children['small'].run_id}", "items": 2, "carrier": "post",
    }  # fmt: skip
    assert expected.items() <= second.items()
    told = await scene.completed(json.loads(run.output)["message"])
    assert told.run_id == step_of(run, "tell").child_run_id
    assert (told.parent_run_id, json.loads(told.output)) == (run.run_id, "A-7 is on its way")


async def test_a_cancel_reaches_the_handler_of_a_child_and_its_run_f036_f037(
    scene: Scene,
) -> None:
    holding = scene.new_holding()
    lowest = {"hold": {"task": {"handler": "test.hold", "input": "${input}"}}}
    for name, nodes in {
        "e2e_lowest": lowest,
        "e2e_middle": {"call": {"run": {"workflow": "e2e_lowest", "input": "${input}"}}},
    }.items():
        await scene.client.publish_workflow(json.dumps({"name": name, "nodes": nodes}))
    call = {"run": {"workflow": "e2e_middle", "input": "${input}"}}
    run_id = await scene.start({"call": call}, holding.given)
    await holding.wait_running()
    await scene.client.cancel_run(run_id)
    run = await scene.ended(run_id)
    middle = (await children_of(scene, run))["call"]
    middle = await scene.ended(middle.run_id)
    lowest_run = await scene.ended((await children_of(scene, middle))["call"].run_id)
    for each in (run, middle, lowest_run):
        assert each.status == RunStatus.RUN_STATUS_CANCELLED
    await eventually(lambda: holding.was_told_to_stop, what="the handler heard of it")
