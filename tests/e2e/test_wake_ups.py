"""Wake-ups are hints: without a single one, runs, timers and watchers go on by looking."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from perdure import RunStatus, has_ended
from perdure_testkit.database import url_of

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

NODES = {
    "first": {"task": {"handler": "test.echo"}},
    "pause": {"needs": ["first"], "wait": "100ms"},
    "last": {"needs": ["pause"], "task": {"handler": "test.echo"}},
}
BY_LOOKING_SECONDS = 30.0

_END_LISTENERS = """
SELECT count(pg_terminate_backend(pid)) AS n FROM pg_stat_activity
 WHERE datname = current_database() AND query ILIKE 'listen %'
"""


@pytest_asyncio.fixture(loop_scope="session")
async def unheard(scene: Scene) -> AsyncIterator[Scene]:
    """The engine with a coordinator that notifies in another database, where nobody listens."""
    own = scene.place.database.url("coordinator")
    elsewhere = {"PERDURE_DATABASE_DIRECT_URL": url_of(own, "postgres", "coordinator")}
    await scene.engine.supervisor.restart("coordinator", elsewhere)
    yield scene
    await scene.engine.supervisor.restart("coordinator")


async def test_runs_timers_and_watchers_need_no_wake_up_f073_f077_f080(unheard: Scene) -> None:
    run_id = await unheard.start(NODES)

    run = await unheard.completed(run_id, within=BY_LOOKING_SECONDS)

    assert [step.node for step in run.steps] == ["first", "pause", "last"]


async def test_a_watcher_hears_again_after_its_listener_was_cut_off_f078(scene: Scene) -> None:
    holding = scene.new_holding()
    run_id = await scene.start({"hold": {"task": {"handler": "test.hold", "input": holding.given}}})
    await holding.wait_running()

    (row,) = await scene.place.fetch(_END_LISTENERS)
    holding.let_go()
    async for run in scene.client.watch_run(run_id):
        last = run

    assert row["n"] > 0
    assert has_ended(last)
    assert last.status == RunStatus.RUN_STATUS_COMPLETED
