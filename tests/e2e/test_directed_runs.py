"""Runs that direct themselves, through all six processes: switch, caught failure, join of any."""

from __future__ import annotations

import json
import uuid

import pytest
from perdure import RunStatus, StepStatus

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

ORDER = {
    "route": {
        "switch": {
            "cases": [{"when": "input.amount > 100", "then": ["ask"]}],
            "else": ["charge"],
        }
    },
    "ask": {"task": {"handler": "test.echo", "input": {"who": "a person"}}},
    "charge": {
        "task": {"handler": "test.refuse", "input": {"message": "no money"}},
        "on_failure": [{"when": 'error.code == "REFUSED"', "then": ["apologise"]}],
    },
    "apologise": {"task": {"handler": "test.echo", "input": {"because": "of no money"}}},
    "close": {"needs": ["ask", "apologise"], "join": "any", "transform": "${join.first.id}"},
}


@pytest.mark.parametrize(("amount", "way"), [(500, "ask"), (5, "apologise")])
async def test_a_run_takes_the_way_that_its_input_and_its_failures_point_to(
    scene: Scene, amount: int, way: str
) -> None:
    run_id = await scene.start(ORDER, {"amount": amount}, output="${nodes.close.output}")
    run = await scene.completed(run_id)
    assert json.loads(run.output) == way
    other = "apologise" if way == "ask" else "ask"
    assert step_of(run, other).status == StepStatus.STEP_STATUS_SKIPPED


async def test_a_clean_up_runs_after_a_failure_and_the_run_fails_all_the_same(
    scene: Scene,
) -> None:
    nodes = {
        "work": {"task": {"handler": "test.refuse", "input": {"message": "broken"}}},
        "clean_up": {"needs": ["work"], "join": "settled", "task": {"handler": "test.echo"}},
    }
    run = await scene.ended(await scene.start(nodes))
    assert run.status == RunStatus.RUN_STATUS_FAILED
    assert (run.error.code, run.error.node) == ("REFUSED", "work")
    assert step_of(run, "clean_up").status == StepStatus.STEP_STATUS_COMPLETED


async def test_a_node_and_a_run_end_at_their_deadlines(scene: Scene) -> None:
    late = {"wait": "1h", "deadline": "1s", "on_failure": [{"output": "late"}]}
    caught = await scene.start({"slow": late})
    passed = await scene.start({"slow": {"wait": "1h"}}, deadline="1s")
    assert json.loads((await scene.completed(caught)).output) == {"slow": "late"}
    run = await scene.ended(passed)
    assert (run.status, run.error.code) == (RunStatus.RUN_STATUS_TIMED_OUT, "DEADLINE")


async def test_of_two_runs_with_one_exclusive_key_the_second_goes_on_after_the_first(
    scene: Scene,
) -> None:
    key = str(uuid.uuid4())
    nodes = {"go": {"signal": {"name": "go"}}}
    first, second = [
        await scene.start(nodes, {"key": key}, exclusive={"key": "${input.key}"}) for _ in range(2)
    ]
    for run_id in (first, second):
        await scene.client.signal_run(run_id, "go", run_id)
    assert json.loads((await scene.completed(first)).output) == {"go": first}
    assert json.loads((await scene.completed(second)).output) == {"go": second}
    texts = [event.text async for event in scene.client.history(second)]
    assert any(first in text for text in texts), texts
