"""Handlers that poll by the SDK: what they come to is told as it is of those inside a worker."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import perdure
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as engine_pb
from perdure_contracts.internal.v1.coordinator_service_pb2 import ReportResultItem
from perdure_runtime.access import Permission

from tests.integration.worker.door_stage import DoorStage
from tests.integration.worker.fake_engine import SHORT_LEASE_MS, FakeEngine, grant

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "handlers.md"
PATIENCE = 30.0


@asynccontextmanager
async def polling(
    doors: DoorStage, handlers: perdure.Handlers, **settings: Any
) -> AsyncIterator[perdure.PollingWorker]:
    """Serve handlers by polling while the context lasts."""
    door = await doors.open(lease_margin=0.1)
    key = doors.engine.keys.give(Permission.WORK)
    usual: dict[str, Any] = {
        "address": f"127.0.0.1:{door.server.port}",
        "api_key": key,
        "worker_id": "poller",
        "slots": 4,
        "drain_seconds": PATIENCE,
    }
    worker = perdure.PollingWorker(handlers, **(usual | settings))
    serving = asyncio.create_task(asyncio.to_thread(worker.run))
    try:
        yield worker
    finally:
        worker.stop()
        await serving


@asynccontextmanager
async def inside(doors: DoorStage, handlers: perdure.Handlers) -> AsyncIterator[None]:
    """Serve handlers inside a worker."""
    await doors.stage.start(handlers)
    yield


def returns(given: Any, ctx: perdure.HandlerContext) -> Any:
    ctx.costs.add("0.03")
    return {"given": given, "attempt": ctx.attempt, "prefix": ctx.key_prefix, "node": ctx.node}


def raw(given: Any, ctx: perdure.HandlerContext) -> Any:
    return perdure.RawJson(ctx.input_bytes)


def raises(given: Any, ctx: perdure.HandlerContext) -> Any:
    raise perdure.RateLimited("TOO_MANY", "slow down", retry_after=30.0, details={"limit": 3})


def is_permanent(given: Any, ctx: perdure.HandlerContext) -> Any:
    raise perdure.Permanent("NO_SUCH_CUSTOMER", "nobody knows them")


def breaks(given: Any, ctx: perdure.HandlerContext) -> Any:
    raise KeyError("n\0o")


def leaves(given: Any, ctx: perdure.HandlerContext) -> Any:
    raise SystemExit(3)


def is_no_json(given: Any, ctx: perdure.HandlerContext) -> Any:
    return {1, 2}


COURSES = [returns, raw, raises, is_permanent, breaks, leaves, is_no_json]


def in_a_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    async def course(given: Any, ctx: perdure.HandlerContext) -> Any:
        return function(given, ctx)

    return course


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async"])
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.__name__)
async def test_a_handler_comes_to_the_same_inside_a_worker_and_by_polling(
    doors: DoorStage, course: Callable[..., Any], is_async: bool
) -> None:
    found = []
    for serve in (inside, polling):
        handlers = perdure.Handlers()
        handlers.add("work", in_a_loop(course) if is_async else course)
        reports = doors.engine.reports
        reports.clear()
        async with serve(doors, handlers):
            await doors.stage.ready(grant(scope="batch[2]", attempt=2, input=b'{"n": 1.0e400}'))
            await doors.engine.until(lambda: doors.engine.reports)
        await _end_workers(doors)
        found.append(_told(reports[0]))
    assert found[0] == found[1]


async def _end_workers(doors: DoorStage) -> None:
    for worker in doors.stage.workers:
        await worker.stop()
    doors.stage.workers.clear()


def _told(report: ReportResultItem) -> ReportResultItem:
    told = ReportResultItem()
    told.CopyFrom(report)
    for field in ("lease", "next_lease_id", "next_queues", "next_worker", "traceparent"):
        told.ClearField(field)
    if told.failure.details.startswith(b'{"type"'):
        # Where it was raised is told, too, and differs.
        told.failure.ClearField("details")
    return told


async def test_the_next_task_of_a_run_is_done_without_a_poll(doors: DoorStage) -> None:
    handlers = perdure.Handlers()
    handlers.add("work", lambda given, ctx: ctx.step)
    doors.engine.nexts = {1: grant(2)}
    async with polling(doors, handlers):
        await doors.stage.ready(grant(1))
        await doors.engine.until(lambda: len(doors.engine.reports) == 2)
    assert [item.output for item in doors.engine.reports] == [b"1", b"2"]
    assert len(doors.engine.acquired) == 1
    assert doors.engine.acquired[0].worker == "poller"


async def test_a_handler_that_is_not_there_fails_its_task_by_name(doors: DoorStage) -> None:
    handlers = perdure.Handlers()
    handlers.add("other", lambda given, ctx: None)
    async with polling(doors, handlers):
        report = await doors.stage.one_result(grant())
    assert report.failure.code == "HANDLER_UNKNOWN"
    assert "'work'" in report.failure.message


async def test_p8_handlers_that_block_their_loop_do_not_stop_heartbeats(doors: DoorStage) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()

    @handlers.handler("work")
    async def work(given: Any, ctx: perdure.HandlerContext) -> str:
        let_go.wait(PATIENCE)
        return "done"

    async with polling(doors, handlers):
        await doors.stage.ready(grant(lease_ms=SHORT_LEASE_MS))
        await doors.engine.until(lambda: len(doors.engine.renewed) >= 2)
        let_go.set()
        await doors.engine.until(lambda: doors.engine.reports)
    assert doors.engine.reports[0].output == b'"done"'


def _lost(_: Any) -> engine_pb.RenewLeaseResult:
    return engine_pb.RenewLeaseResult(status=engine_pb.RENEW_STATUS_LOST)


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async"])
async def test_f050_a_lost_task_stops_its_handler_and_is_told_to_nobody(
    doors: DoorStage, is_async: bool
) -> None:
    handlers, stopped = perdure.Handlers(), threading.Event()

    async def waits(given: Any, ctx: perdure.HandlerContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def blocks(given: Any, ctx: perdure.HandlerContext) -> None:
        ctx.cancelled.wait(PATIENCE)
        stopped.set()

    handlers.add("work", waits if is_async else blocks)
    doors.engine.answer_renew = _lost
    async with polling(doors, handlers):
        await doors.stage.ready(grant(lease_ms=SHORT_LEASE_MS))
        assert await asyncio.to_thread(stopped.wait, PATIENCE)
    assert (doors.engine.reports, doors.engine.released) == ([], [])


async def test_a_stopping_run_is_told_to_its_handler(doors: DoorStage) -> None:
    handlers = perdure.Handlers()
    handlers.add("work", lambda given, ctx: ctx.cancelled.wait(PATIENCE))
    doors.engine.answer_renew = lambda _: engine_pb.RenewLeaseResult(
        status=engine_pb.RENEW_STATUS_RENEWED, lease_ms=SHORT_LEASE_MS, cancel_requested=True
    )
    async with polling(doors, handlers):
        report = await doors.stage.one_result(grant(lease_ms=SHORT_LEASE_MS))
    assert report.output == b"true"


async def test_an_outcome_is_told_until_somebody_answers(doors: DoorStage) -> None:
    handlers = perdure.Handlers()
    handlers.add("work", lambda given, ctx: "done")
    tries: list[int] = []

    def answer(item: ReportResultItem) -> engine_pb.ReportResultResult:
        tries.append(item.lease.step)
        if len(tries) < 4:
            return engine_pb.ReportResultResult(status=engine_pb.ITEM_STATUS_AGAIN)
        return FakeEngine.apply(doors.engine, item)

    doors.engine.answer_report = answer
    async with polling(doors, handlers):
        await doors.stage.ready(grant())
        await doors.engine.until(lambda: len(tries) >= 4)
    assert tries == [1] * 4


async def test_what_does_not_end_in_time_is_handed_back(doors: DoorStage) -> None:
    handlers, begun, let_go = perdure.Handlers(), threading.Event(), threading.Event()

    @handlers.handler("work")
    def work(given: Any, ctx: perdure.HandlerContext) -> None:
        begun.set()
        let_go.wait(PATIENCE)

    async with polling(doors, handlers, drain_seconds=0.05):
        await doors.stage.ready(grant())
        assert await asyncio.to_thread(begun.wait, PATIENCE)
    let_go.set()
    assert [lease.step for lease in doors.engine.released] == [1]
    assert doors.engine.reports == []


async def test_what_is_short_ends_before_the_worker_does(doors: DoorStage) -> None:
    handlers, begun, let_go = perdure.Handlers(), threading.Event(), threading.Event()

    @handlers.handler("work")
    def work(given: Any, ctx: perdure.HandlerContext) -> str:
        begun.set()
        let_go.wait(PATIENCE)
        return "done"

    async with polling(doors, handlers) as worker:
        await doors.stage.ready(grant())
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        worker.stop()
        let_go.set()
    assert [item.output for item in doors.engine.reports] == [b'"done"']


async def test_a_key_that_may_not_work_ends_the_worker_with_its_reason(doors: DoorStage) -> None:
    door = await doors.open()
    key = doors.engine.keys.give(Permission.RUNS_READ)
    address = f"127.0.0.1:{door.server.port}"
    worker = perdure.PollingWorker(perdure.Handlers(), address=address, api_key=key)
    with pytest.raises(perdure.PerdureApiError) as refused:
        await asyncio.to_thread(worker.run)
    assert refused.value.reason == "PERMISSION_MISSING"


async def test_the_program_of_the_guide_does_its_task(doors: DoorStage) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, str(GUIDE), "exec"), made)
    async with polling(doors, made["handlers"]):
        report = await doors.stage.one_result(
            grant(handler="score.customer", input=b'{"customer": "ada"}')
        )
    assert report.output == b'{"customer": "ada", "score": 30}'
