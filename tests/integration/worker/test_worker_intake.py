import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import perdure
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_runtime import fail_points
from perdure_runtime.errors import Reason, Unavailable
from perdure_streams.consumer import Consumer
from perdure_streams.message import Hint
from perdure_streams.names import GROUP
from perdure_testkit.waiting import eventually
from perdure_worker import reader

from tests.integration.worker.fake_engine import IO_DEFAULT, RUN_ID, STREAM, Stage, grant


def echo_handlers() -> perdure.Handlers:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(given: Any, ctx: perdure.HandlerContext) -> Any:
        return {"got": given, "attempt": ctx.attempt}

    return handlers


async def test_a_step_is_leased_run_and_reported_and_its_entry_leaves_the_stream(
    stage: Stage,
) -> None:
    await stage.start(echo_handlers())
    report = await stage.one_result(grant())
    assert report.output == b'{"got": {"n": 1}, "attempt": 1}'
    assert report.lease.lease_id == stage.engine.acquired[0].lease_id
    assert [item.org for item in stage.engine.acquired] == ["default"]
    assert stage.engine.report_calls[0].worker == "worker0"
    assert list(stage.engine.report_calls[0].queues) == ["io:default"]
    await stage.until_empty()


async def test_reading_begins_when_the_lanes_are_known(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "IDLE_SECONDS", 600.0)
    await stage.start(echo_handlers())
    assert (await stage.one_result(grant())).output


async def test_protocol_p2_gone_and_blocked_end_the_entry(stage: Stage) -> None:
    answers = {1: pb.ACQUIRE_STATUS_GONE, 2: pb.ACQUIRE_STATUS_BLOCKED}
    stage.engine.answer_acquire = lambda item: pb.AcquireLeaseResult(status=answers[item.step])
    await stage.start(echo_handlers())
    await stage.hint(1, 2)
    await stage.engine.until(lambda: len(stage.engine.acquired) == 2)
    await stage.until_empty()
    assert stage.engine.reports == []


async def test_protocol_p3_again_is_asked_anew_under_the_same_lease_id(stage: Stage) -> None:
    answers = [pb.AcquireLeaseResult(status=pb.ACQUIRE_STATUS_AGAIN)] * 2

    def answer(item: pb.AcquireLeaseItem) -> pb.AcquireLeaseResult:
        return answers.pop() if answers else stage.engine.give(item)

    stage.engine.answer_acquire = answer
    await stage.start(echo_handlers())
    await stage.one_result(grant())
    assert len(stage.engine.acquired) == 3
    assert len({item.lease_id for item in stage.engine.acquired}) == 1


async def test_protocol_p3_a_lost_answer_is_repeated_under_the_same_lease_id(
    stage: Stage,
) -> None:
    class Once:
        left = 1

        async def run(self, point: str) -> None:
            if self.left:
                self.left -= 1
                raise fail_points.FailPointHit(point)

        def run_sync(self, point: str) -> None:
            raise AssertionError(point)

    with fail_points.arm("worker.acquire_lease", "after", Once()):
        await stage.start(echo_handlers())
        await stage.one_result(grant())
    assert len(stage.engine.acquired) == 2
    assert len({item.lease_id for item in stage.engine.acquired}) == 1
    assert len(stage.engine.reports) == 1


async def test_protocol_p2_an_entry_of_a_worker_that_died_before_the_lease_is_taken_over(
    stage: Stage,
) -> None:
    dead = Consumer(stage.redis, IO_DEFAULT.streams(1), "dead")
    await stage.hint(1)
    entries = await dead.read(1, 1000)
    assert [entry.hint for entry in entries] == [Hint("default", uuid.UUID(RUN_ID), 1)]
    await dead.give_back(entries)
    stage.engine.grants[1] = grant()
    await stage.start(echo_handlers())
    await stage.engine.until(lambda: stage.engine.reports)
    await stage.until_empty()


async def test_nothing_is_read_ahead_of_free_slots(stage: Stage) -> None:
    handlers, let_go = perdure.Handlers(), threading.Event()
    begun = asyncio.Event()
    home = asyncio.get_running_loop()

    @handlers.handler("work")
    def work(_: Any, ctx: perdure.HandlerContext) -> None:
        home.call_soon_threadsafe(begun.set)
        let_go.wait()

    await stage.start(handlers, slots=1)
    for step in (1, 2, 3):
        await stage.ready(grant(step))
    await begun.wait()
    info = (await stage.redis.xinfo_groups(STREAM))[0]
    assert info["lag"] == 2
    assert len(stage.engine.acquired) == 1
    let_go.set()
    await stage.engine.until(lambda: len(stage.engine.reports) == 3)


async def test_free_slots_are_announced_and_withdrawn_on_drain(stage: Stage) -> None:
    worker = await stage.start(echo_handlers())
    key = IO_DEFAULT.free_key("worker0")

    async def announced() -> bool:
        return bool(await stage.redis.get(key) == b"4")

    look: Callable[[], bool | Awaitable[bool]] = announced
    await eventually(look)
    await worker.drain()
    assert await stage.redis.get(key) is None


async def test_p5_what_is_read_together_is_acquired_in_one_call(stage: Stage) -> None:
    await stage.hint(1, 2, 3)
    await stage.start(echo_handlers())
    await stage.engine.until(lambda: len(stage.engine.acquired) == 3)
    assert [len(call.items) for call in stage.engine.acquire_calls] == [3]


async def test_f091_grants_too_large_for_one_message_are_asked_for_in_smaller_batches(
    stage: Stage,
) -> None:
    big = b'"' + b"x" * 1_000_000 + b'"'
    for step in range(1, 7):
        stage.engine.grants[step] = grant(step, input=big)
    await stage.hint(*range(1, 7))
    await stage.start(echo_handlers(), slots=6)
    await stage.engine.until(lambda: len(stage.engine.reports) == 6)
    lease_ids = {item.step: set[str]() for item in stage.engine.acquired}
    for item in stage.engine.acquired:
        lease_ids[item.step].add(item.lease_id)
    assert all(len(ids) == 1 for ids in lease_ids.values())


async def test_a_coordinator_that_is_away_leaves_the_entry_pending_for_a_later_reclaim(
    stage: Stage,
) -> None:
    asked = asyncio.Event()

    def unavailable(item: pb.AcquireLeaseItem) -> pb.AcquireLeaseResult:
        asked.set()
        raise Unavailable("away", reason=Reason.PEER_UNAVAILABLE)

    stage.engine.answer_acquire = unavailable
    await stage.start(echo_handlers())
    await stage.hint(1)
    await asked.wait()
    assert (await stage.redis.xpending(STREAM, GROUP))["pending"] == 1
    stage.engine.grants[1] = grant()
    stage.engine.answer_acquire = stage.engine.give
    await stage.engine.until(lambda: stage.engine.reports)
    await stage.until_empty()
