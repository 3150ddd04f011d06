import asyncio
import threading
from typing import Any

import perdure
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime import fail_points

from tests.integration.worker.fake_engine import SHORT_LEASE_MS, Stage, grant


class Gate:
    """A handler that has begun and waits in its thread until the test lets it go."""

    def __init__(self) -> None:
        self.handlers = perdure.Handlers()
        self.begun = asyncio.Event()
        self.let_go = threading.Event()
        self._home = asyncio.get_running_loop()
        self.handlers.add("work", self.work)

    def work(self, _: Any, ctx: perdure.HandlerContext) -> str:
        self._home.call_soon_threadsafe(self.begun.set)
        self.let_go.wait()
        return "done"


async def test_f064_f065_f067_a_drain_renews_and_reports_what_runs_and_takes_nothing_new(
    stage: Stage,
) -> None:
    gate = Gate()
    stage.engine.nexts = {1: grant(2)}
    worker = await stage.start(gate.handlers)
    await stage.ready(grant(1, lease_ms=SHORT_LEASE_MS))
    await gate.begun.wait()
    draining = asyncio.create_task(worker.drain())
    await stage.engine.until(lambda: len(stage.engine.renewed) >= 2)
    await stage.ready(grant(3))
    assert not draining.done()
    gate.let_go.set()
    await draining
    await worker.stop()
    assert [item.output for item in stage.engine.reports] == [b'"done"']
    assert stage.engine.reports[0].next_lease_id == ""
    assert [item.step for item in stage.engine.acquired] == [1]


async def test_what_still_runs_when_the_worker_is_stopped_is_released_at_once(
    stage: Stage,
) -> None:
    handlers, begun, stopped = perdure.Handlers(), asyncio.Event(), threading.Event()
    home = asyncio.get_running_loop()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        home.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    worker = await stage.start(handlers)
    await stage.ready(grant())
    await begun.wait()
    await worker.stop()
    assert stopped.is_set()
    assert [lease.step for lease in stage.engine.released] == [1]
    assert stage.engine.reports == []


async def test_p4_a_call_cut_by_the_stop_is_reported_unknown_where_no_key_lets_it_be_repeated(
    stage: Stage,
) -> None:
    gate = Gate()
    worker = await stage.start(gate.handlers)
    await stage.ready(grant(effect=dispatch_pb2.EffectGrant(key="k", kind="none", calls=1)))
    await gate.begun.wait()
    await worker.stop()
    assert stage.engine.released == []
    (report,) = stage.engine.reports
    assert report.failure.code == "WORKER_STOPPED"
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    gate.let_go.set()


async def test_a_handler_that_hangs_does_not_keep_the_worker_from_ending(stage: Stage) -> None:
    gate = Gate()
    worker = await stage.start(gate.handlers)
    await stage.ready(grant())
    await gate.begun.wait()
    await worker.stop()
    assert [lease.step for lease in stage.engine.released] == [1]
    gate.let_go.set()


async def test_a_step_granted_after_the_drain_began_is_released(stage: Stage) -> None:
    gate, pause = Gate(), fail_points.Pause()
    gate.let_go.set()
    with fail_points.arm("worker.acquire_lease", "after", pause):
        worker = await stage.start(gate.handlers)
        await stage.ready(grant())
        await pause.reached.wait()
        draining = asyncio.create_task(worker.drain())
        await asyncio.wait((draining,), timeout=0)
        pause.release.set()
        await draining
    assert [lease.step for lease in stage.engine.released] == [1]
    assert stage.engine.reports == []
    await worker.stop()
    await stage.until_empty()


async def test_f065_a_result_whose_report_is_delayed_is_still_told_before_the_end(
    stage: Stage,
) -> None:
    gate, pause = Gate(), fail_points.Pause()
    gate.let_go.set()
    with fail_points.arm("worker.report_result", "before", pause):
        worker = await stage.start(gate.handlers)
        await stage.ready(grant())
        await pause.reached.wait()
        ending = asyncio.create_task(worker.stop())
        await asyncio.wait((ending,), timeout=0)
        pause.release.set()
        await ending
    assert [item.output for item in stage.engine.reports] == [b'"done"']
    assert stage.engine.released == []


async def test_a_worker_starts_and_stops_in_any_order(stage: Stage) -> None:
    gate = Gate()
    worker = await stage.start(gate.handlers)
    await worker.start()
    await worker.drain()
    await worker.stop()
    await worker.stop()
