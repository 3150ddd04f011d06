"""Runs through all six processes: what a person sees, and that payloads stay what they are."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from perdure import RunStatus, has_ended
from perdure_testkit.verdict import assert_applied_once

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

TWO_STEPS = {
    "first": {"task": {"handler": "test.echo"}},
    "second": {
        "needs": ["first"],
        "task": {"handler": "test.echo", "input": "${nodes.first.output}"},
    },
}
RUNS_AT_ONCE = 200


async def test_a_two_step_run_goes_through_every_process_and_tells_its_story(scene: Scene) -> None:
    run_id = await scene.start(TWO_STEPS, {"x": 1}, output="${nodes.second.output}")

    run = await scene.completed(run_id)

    assert run.output == b'{"x": 1}'
    await assert_applied_once(scene.place, [run_id])
    lines = [line async for line in scene.client.history(run_id)]
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert [line.kind for line in lines] == [
        "run_started",
        "step_queued",
        "step_leased",
        "step_completed",
        "step_leased",
        "step_completed",
        "run_completed",
    ]
    assert lines[0].text == "the run started"
    assert lines[1].text == "`first` waits for a worker"
    assert lines[2].text.startswith("`first` was taken by ")
    assert lines[3].text == "`first` completed"
    assert lines[-1].text == "every node ended: the run completed"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"big": 18446744073709551616, "b": 1, "a": 1970670598291982290}',
        b'{"lone": "\\ud800", "nul": "\\u0000", "tiny": 1e-400, "text": "\xf0\x9f\xa6\x8a"}',
        b' {"spaces" :  [ 1.0 , 1.00 ,-0.0 ] } ',
    ],
    ids=["beyond-64-bit", "half-a-surrogate-and-nul", "spaces-and-zeros"],
)
async def test_a_payload_comes_back_byte_for_byte_through_input_step_and_output_r12_f103(
    scene: Scene, payload: bytes
) -> None:
    nodes = {
        "first": {"task": {"handler": "test.echo", "input": "${input}"}},
        "second": {
            "needs": ["first"],
            "task": {"handler": "test.echo", "input": "${nodes.first.output}"},
        },
    }

    run = await scene.completed(await scene.start(nodes, payload, output="${nodes.second.output}"))

    # What is around a value is no part of it; within it not one byte may change.
    value = payload.strip()
    assert run.input.strip() == value
    assert step_of(run, "first").output.strip() == value
    assert step_of(run, "second").input.strip() == value
    assert run.output.strip() == value


async def test_a_watch_tells_each_change_and_ends_with_the_run(scene: Scene) -> None:
    holding = scene.new_holding()
    nodes = {"hold": {"task": {"handler": "test.hold", "input": holding.given}}}
    run_id = await scene.start(nodes)
    await holding.wait_running()

    revisions = []
    async for run in scene.client.watch_run(run_id):
        revisions.append(run.revision)
        if not has_ended(run):
            holding.let_go()
    else:
        assert run.status == RunStatus.RUN_STATUS_COMPLETED

    assert len(revisions) >= 2
    assert revisions == sorted(set(revisions))


@pytest.mark.timeout(180)
async def test_two_hundred_runs_at_once_all_complete_with_one_result_for_each_step(
    scene: Scene,
) -> None:
    first = await scene.start(TWO_STEPS, {"number": 0})
    name = (await scene.client.get_run(first)).workflow
    started = await asyncio.gather(
        *(scene.client.start_run(name, {"number": n}) for n in range(RUNS_AT_ONCE))
    )

    runs = await asyncio.gather(*(scene.ended(one.run_id, within=90) for one in started))

    assert {run.status for run in runs} == {RunStatus.RUN_STATUS_COMPLETED}
    await assert_applied_once(scene.place, [run.run_id for run in runs])


async def test_the_same_start_key_gives_the_same_run_whenever_it_is_repeated_f119(
    scene: Scene,
) -> None:
    await scene.completed(first := await scene.start(TWO_STEPS))
    name = (await scene.client.get_run(first)).workflow

    answers = await asyncio.gather(
        *(scene.client.start_run(name, {"a": 1}, start_key=f"key-{name}") for _ in range(8))
    )
    await scene.completed(answers[0].run_id)
    late = await scene.client.start_run(name, {"a": 1}, start_key=f"key-{name}")

    assert len({answer.run_id for answer in (*answers, late)}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    assert not late.created


async def test_doctor_finds_nothing_in_a_healthy_engine(scene: Scene) -> None:
    await scene.completed(await scene.start(TWO_STEPS))

    doctor = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", "doctor", "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **scene.environment},
    )  # fmt: skip
    output, errors = await doctor.communicate()

    assert errors == b""
    checks = json.loads(output)["checks"]
    assert checks
    assert [check for check in checks if not check["ok"]] == []
    assert doctor.returncode == 0
