"""Workers that come and go: drain hands over at once, and one queue's flood is not another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene, outcomes, step_of

pytestmark = SHARED_ENGINE

FLOOD = 40
"""More held steps than the slots of both workers that serve the lane."""

HAND_OVER_SECONDS = 20.0


@pytest_asyncio.fixture(loop_scope="session")
async def drained(scene: Scene) -> AsyncIterator[set[str]]:
    """Names of processes that a test stops; they are started again after it."""
    names: set[str] = set()
    yield names
    for name in names:
        await scene.engine.supervisor.start(name)


def worker_of(scene: Scene, pid: int) -> str:
    supervisor = scene.engine.supervisor
    (name,) = (name for name in supervisor.names if supervisor.pid(name) == pid)
    return name


async def test_a_worker_told_to_stop_hands_its_step_over_without_a_loss_f064_f067(
    scene: Scene, drained: set[str]
) -> None:
    holding = scene.new_holding()
    run_id = await scene.start({"hold": {"task": {"handler": "test.hold", "input": holding.given}}})
    old = await holding.wait_running()
    name = worker_of(scene, old)
    drained.add(name)

    status = await scene.engine.supervisor.stop(name)
    new = await holding.wait_moved(old, within=HAND_OVER_SECONDS)
    holding.let_go()

    assert status == 0
    assert new != old
    hold = step_of(await scene.completed(run_id), "hold")
    assert outcomes(hold) == ["released", "completed"]
    assert (hold.losses, hold.failures) == (0, 0)


async def test_a_step_that_ends_while_its_worker_drains_is_reported_by_it_f065(
    scene: Scene, drained: set[str]
) -> None:
    holding = scene.new_holding()
    run_id = await scene.start({"hold": {"task": {"handler": "test.hold", "input": holding.given}}})
    name = worker_of(scene, await holding.wait_running())
    drained.add(name)
    # What earlier starts wrote would say that it drains before it does.
    scene.engine.supervisor.log(name).write_bytes(b"")

    stopping = asyncio.create_task(scene.engine.supervisor.stop(name))
    log = scene.engine.supervisor.log(name)
    await eventually(lambda: b"service.draining" in log.read_bytes(), what="it drains")
    holding.let_go()
    status = await stopping

    assert status == 0
    assert outcomes(step_of(await scene.completed(run_id), "hold")) == ["completed"]


async def test_a_flood_of_one_lane_leaves_the_workers_of_another_free_f132(scene: Scene) -> None:
    held = {}
    for _ in range(FLOOD):
        holding = scene.new_holding()
        run = await scene.start(
            {"hold": {"task": {"handler": "test.hold", "input": holding.given}}}
        )
        held[run] = holding
    await asyncio.gather(*(holding.wait_running() for holding in list(held.values())[:8]))

    slow = await scene.start({"only": {"lane": "slow", "task": {"handler": "test.echo"}}})
    await scene.completed(slow, within=20)

    for holding in held.values():
        holding.let_go()
    await asyncio.gather(*(scene.completed(run, within=60) for run in held))
