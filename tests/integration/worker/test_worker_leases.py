import asyncio
import threading
from typing import Any

import perdure
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime import fail_points

from tests.integration.worker.fake_engine import SHORT_LEASE_MS, Stage, grant


def lost(_: StepLease) -> pb.RenewLeaseResult:
    return pb.RenewLeaseResult(status=pb.RENEW_STATUS_LOST)


async def test_p8_f050_an_async_handler_that_blocks_its_loop_does_not_stop_renewals(
    stage: Stage,
) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> str:
        let_go.wait()
        return "done"

    await stage.start(handlers)
    await stage.ready(grant(lease_ms=SHORT_LEASE_MS))
    await stage.engine.until(lambda: len(stage.engine.renewed) >= 2)
    let_go.set()
    await stage.engine.until(lambda: stage.engine.reports)
    assert stage.engine.reports[0].output == b'"done"'
    assert stage.engine.renewed[0] == stage.engine.reports[0].lease


async def test_p8_a_blocking_handler_does_not_keep_other_steps_from_running(stage: Stage) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()

    @handlers.handler("block")
    async def block(_: Any, ctx: perdure.HandlerContext) -> None:
        let_go.wait()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> str:
        return "done"

    await stage.start(handlers)
    await stage.ready(grant(1, handler="block"))
    await stage.ready(grant(2))
    await stage.engine.until(lambda: stage.engine.reports)
    assert stage.engine.reports[0].lease.step == 2
    let_go.set()
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)


async def test_all_leases_are_renewed_in_one_call(stage: Stage) -> None:
    handlers, let_go = perdure.Handlers(), asyncio.Event()
    calls: list[list[int]] = []

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        await ctx.cancelled.wait_async()

    def extend(lease: StepLease) -> pb.RenewLeaseResult:
        calls[-1].append(lease.step)
        let_go.set()
        return pb.RenewLeaseResult(
            status=pb.RENEW_STATUS_RENEWED, lease_ms=SHORT_LEASE_MS, cancel_requested=True
        )

    class CountCalls:
        async def run(self, point: str) -> None:
            calls.append([])

        def run_sync(self, point: str) -> None:
            raise AssertionError(point)

    stage.engine.answer_renew = extend
    with fail_points.arm("worker.renew_lease", "before", CountCalls()):
        await stage.start(handlers)
        for step in (1, 2, 3):
            stage.engine.grants[step] = grant(step, lease_ms=SHORT_LEASE_MS)
        await stage.hint(1, 2, 3)
        await stage.engine.until(lambda: len(stage.engine.reports) == 3)
    assert sorted(calls[0]) == [1, 2, 3]


async def test_f050_a_lost_lease_stops_the_handler_and_drops_its_result(stage: Stage) -> None:
    handlers, stopped = perdure.Handlers(), threading.Event()
    seen: list[bool] = []

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled.is_set())
            stopped.set()

    stage.engine.answer_renew = lost
    worker = await stage.start(handlers)
    await stage.ready(grant(lease_ms=SHORT_LEASE_MS))
    assert await asyncio.to_thread(stopped.wait, 20)
    await worker.drain()
    assert seen == [True]
    assert stage.engine.reports == []
    assert stage.engine.released == []


async def test_a_lost_lease_tells_a_thread_to_stop_and_keeps_its_slot_until_it_did(
    stage: Stage,
) -> None:
    handlers, told, let_go = perdure.Handlers(), threading.Event(), threading.Event()

    @handlers.handler("work")
    def work(given: Any, ctx: perdure.HandlerContext) -> str:
        if given == "first":
            ctx.cancelled.wait()
            told.set()
            let_go.wait()
        return "done"

    stage.engine.answer_renew = lost
    worker = await stage.start(handlers, slots=1)
    await stage.ready(grant(1, lease_ms=SHORT_LEASE_MS, input=b'"first"'))
    assert await asyncio.to_thread(told.wait, 20)
    await stage.ready(grant(2))
    assert [item.step for item in stage.engine.acquired] == [1]
    let_go.set()
    await stage.engine.until(lambda: stage.engine.reports)
    assert [item.lease.step for item in stage.engine.reports] == [2]
    await worker.drain()


async def test_a_cancelled_run_is_told_to_the_handler_which_ends_at_its_next_safe_point(
    stage: Stage,
) -> None:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> str:
        await ctx.cancelled.wait_async()
        return "stopped early"

    stage.engine.answer_renew = lambda _: pb.RenewLeaseResult(
        status=pb.RENEW_STATUS_RENEWED, lease_ms=SHORT_LEASE_MS, cancel_requested=True
    )
    await stage.start(handlers)
    report = await stage.one_result(grant(lease_ms=SHORT_LEASE_MS))
    assert report.output == b'"stopped early"'


async def test_protocol_p3_an_outage_of_the_coordinator_stops_no_work(stage: Stage) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()
    tries: list[str] = []
    several = asyncio.Event()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> bool:
        let_go.wait()
        return ctx.cancelled.is_set()

    class Away:
        async def run(self, point: str) -> None:
            tries.append(point)
            if len(tries) > 3:
                several.set()
            raise fail_points.FailPointHit(point)

        def run_sync(self, point: str) -> None:
            raise AssertionError(point)

    with fail_points.arm("worker.renew_lease", "before", Away()):
        await stage.start(handlers)
        await stage.ready(grant(lease_ms=SHORT_LEASE_MS))
        await several.wait()
        let_go.set()
        await stage.engine.until(lambda: stage.engine.reports)
    assert stage.engine.reports[0].output == b"false"


async def test_r7_a_hand_out_whose_lease_is_nearly_over_is_handed_back_and_not_begun(
    stage: Stage,
) -> None:
    handlers = perdure.Handlers()
    begun: list[int] = []

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        begun.append(ctx.step)

    await stage.start(handlers)
    await stage.ready(grant(lease_ms=900))
    await stage.engine.until(lambda: stage.engine.released)
    assert begun == []
    assert stage.engine.released[0].lease_id == stage.engine.acquired[0].lease_id
    await stage.until_empty()


async def test_a_try_that_takes_longer_than_its_timeout_is_reported_at_once(stage: Stage) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> None:
        assert ctx.remaining() is not None
        let_go.wait()

    worker = await stage.start(handlers)
    report = await stage.one_result(grant(timeout_ms=200))
    assert (report.failure.code, getattr(report.failure, "class")) == ("TIMEOUT", "retryable")
    assert report.next_lease_id == ""
    let_go.set()
    await worker.drain()


async def test_an_async_handler_is_cancelled_at_its_timeout(stage: Stage) -> None:
    handlers, ended = perdure.Handlers(), threading.Event()

    @handlers.handler("work")
    async def work(_: Any, ctx: perdure.HandlerContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await stage.start(handlers)
    report = await stage.one_result(grant(timeout_ms=200))
    assert report.failure.code == "TIMEOUT"
    assert await asyncio.to_thread(ended.wait, 20)
