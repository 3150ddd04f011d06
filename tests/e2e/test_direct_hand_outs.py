"""A worker that waits is handed the first step of a run by the coordinator, without the relay."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from perdure import RunStatus
from perdure_testkit.waiting import ENGINE_PATIENCE, eventually

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

NODES = {
    "first": {"task": {"handler": "test.echo"}},
    "last": {"needs": ["first"], "task": {"handler": "test.echo"}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def unrelayed(scene: Scene) -> AsyncIterator[Scene]:
    """The engine while its relay is stopped."""
    await scene.engine.supervisor.stop("relay")
    yield scene
    await scene.engine.supervisor.start("relay")


async def test_a_run_ends_while_no_relay_runs_and_the_others_when_it_is_back(
    unrelayed: Scene,
) -> None:
    started: list[str] = []

    async def one_is_over() -> bool:
        started.append(await unrelayed.start(NODES))
        runs = [await unrelayed.client.get_run(run_id) for run_id in started]
        return any(run.status == RunStatus.RUN_STATUS_COMPLETED for run in runs)

    await eventually(one_is_over, within=ENGINE_PATIENCE, what="a run is over without a relay")

    await unrelayed.engine.supervisor.start("relay")
    for run_id in started:
        await unrelayed.completed(run_id)
