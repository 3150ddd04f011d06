"""What handlers tell of their tasks, at whatever door, and what becomes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as engine_pb
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant, StepLease
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.access import Permission
from perdure_runtime.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)

from tests.integration.worker.door_stage import DoorStage, Handler
from tests.integration.worker.fake_engine import SHORT_LEASE_MS, grant

WAIT = 20.0


async def take(doors: DoorStage, handler: Handler, step: int = 1, **fields: Any) -> pb.Task:
    """Make a step ready and poll for it."""
    await doors.stage.ready(grant(step, **fields))
    (task,) = (await handler.poll(wait=WAIT)).tasks
    return task


def failing(error_class: str, **fields: Any) -> pb.FailTaskRequest:
    request = pb.FailTaskRequest(**fields)
    setattr(request, "class", error_class)
    return request


def lease_of(doors: DoorStage, place: int = 0) -> StepLease:
    item = doors.engine.acquired[place]
    return StepLease(
        org=item.org, run_id=item.run_id, step=item.step, fence=1, lease_id=item.lease_id
    )


async def test_an_output_is_told_byte_for_byte_under_the_lease(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(
        doors,
        handler,
        traceparent="00-aa-bb-01",
        connection=ConnectionGrant(name="crm", generation=3),
    )
    output = b'{"n": 18446744073709551616}'
    assert await handler.complete(task.task_token, output, cost="0.03") is None
    (report,) = doors.engine.reports
    assert report.output == output
    assert report.lease == lease_of(doors)
    assert (report.traceparent, report.connection_generation) == ("00-aa-bb-01", 3)
    assert (report.cost_micros, report.next_lease_id) == (30_000, "")


async def test_no_output_is_null(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    await handler.complete((await take(doors, handler)).task_token)
    assert doors.engine.reports[0].output == b"null"
    assert not doors.engine.reports[0].HasField("cost_micros")


async def test_a_failure_is_told_with_its_class_and_the_wait_that_was_asked_for(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    request = failing(
        "rate_limited",
        task_token=task.task_token,
        code="TOO_MANY",
        message="slow\0down" + "!" * 5000,
        details=b'{"limit": 3}',
    )
    request.retry_after.FromSeconds(30)
    await handler.call("FailTask", request)
    failure = doors.engine.reports[0].failure
    assert getattr(failure, "class") == "rate_limited"
    assert (failure.code, failure.details, failure.retry_after_ms) == (
        "TOO_MANY",
        b'{"limit": 3}',
        30_000,
    )
    assert failure.message.startswith("slow\N{REPLACEMENT CHARACTER}down!")
    assert len(failure.message) == 4096


async def test_a_failure_without_a_word_may_be_tried_again(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    await handler.fail((await take(doors, handler)).task_token)
    failure = doors.engine.reports[0].failure
    assert (getattr(failure, "class"), failure.code) == ("retryable", "ERROR")


async def test_r5_the_same_outcome_twice_is_well_both_times(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    await handler.complete(task.task_token, b"1")
    await handler.complete(task.task_token, b"1")
    assert [item.output for item in doors.engine.reports] == [b"1", b"1"]


async def test_r6_the_result_of_a_lost_lease_is_refused_with_its_reason(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    doors.engine.answer_report = lambda _: engine_pb.ReportResultResult(
        status=engine_pb.ITEM_STATUS_STALE
    )
    for told in (handler.complete(task.task_token), handler.fail(task.task_token)):
        with pytest.raises(FailedPrecondition) as refused:
            await told
        assert refused.value.reason == Reason.LEASE_LOST


async def test_a_busy_run_is_told_again_until_it_answers(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    answers = [engine_pb.ITEM_STATUS_AGAIN, engine_pb.ITEM_STATUS_APPLIED]
    doors.engine.answer_report = lambda _: engine_pb.ReportResultResult(status=answers.pop(0))
    await handler.complete(task.task_token)
    assert answers == []


async def test_without_an_answer_in_time_the_caller_may_ask_again(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    doors.engine.answer_report = lambda _: engine_pb.ReportResultResult(
        status=engine_pb.ITEM_STATUS_AGAIN
    )
    with pytest.raises(Unavailable):
        await handler.call("CompleteTask", pb.CompleteTaskRequest(task_token=task.task_token), 1.0)


async def test_the_next_task_of_a_run_comes_with_the_answer(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open(), worker="pod-7")
    task = await take(doors, handler)
    doors.engine.nexts[1] = grant(2)
    task = await handler.complete(task.task_token, next_lanes=["io"], worker_id="pod-7") or task
    assert task.step == 2
    report = doors.engine.reports[0]
    assert (list(report.next_queues), report.next_worker) == (["io:default"], "pod-7")
    await handler.complete(task.task_token)
    assert doors.engine.reports[1].lease.lease_id == report.next_lease_id


async def test_a_chain_ends_after_so_many_tasks(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open(chain_steps=1))
    task: pb.Task | None = await take(doors, handler)
    doors.engine.nexts = {1: grant(2), 2: grant(3)}
    seen = []
    while task is not None:
        seen.append(task.step)
        task = await handler.complete(task.task_token, next_lanes=["io"], worker_id="w")
    assert seen == [1, 2]


async def test_a_door_that_drains_hands_on_no_next_task(doors: DoorStage) -> None:
    door = await doors.open()
    handler = doors.handler(door)
    task = await take(doors, handler)
    doors.engine.nexts[1] = grant(2)
    await door.drain()
    assert await handler.complete(task.task_token, next_lanes=["io"], worker_id="w") is None


async def test_a_next_task_whose_caller_went_away_goes_back_at_once(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    doors.engine.nexts[1] = grant(2)
    request = pb.CompleteTaskRequest(task_token=task.task_token, next_lanes=["io"], worker_id="w")
    telling = asyncio.create_task(handler.call("CompleteTask", request))
    answers = [engine_pb.ITEM_STATUS_AGAIN] * 3

    def answer(item: engine_pb.ReportResultItem) -> engine_pb.ReportResultResult:
        telling.cancel()
        if answers:
            return engine_pb.ReportResultResult(status=answers.pop())
        return doors.engine.apply(item)

    doors.engine.answer_report = answer
    await doors.engine.until(lambda: doors.engine.released)
    assert [lease.step for lease in doors.engine.released] == [2]


async def test_a_next_task_of_a_lane_that_there_is_not_is_told_before_the_result(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    with pytest.raises(NotFound):
        await handler.complete(task.task_token, next_lanes=["none"], worker_id="w")
    assert doors.engine.reports == []


async def test_heartbeats_of_many_tasks_are_answered_each(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    tasks = [await take(doors, handler, step) for step in (1, 2, 3, 4)]
    statuses = {
        1: engine_pb.RENEW_STATUS_RENEWED,
        2: engine_pb.RENEW_STATUS_LOST,
        3: engine_pb.RENEW_STATUS_AGAIN,
        4: engine_pb.RENEW_STATUS_RENEWED,
    }
    doors.engine.answer_renew = lambda lease: engine_pb.RenewLeaseResult(
        status=statuses[lease.step],
        lease_ms=SHORT_LEASE_MS,
        cancel_requested=lease.step == 4,
    )
    beats = await handler.heartbeat(*(task.task_token for task in tasks))
    assert [beat.status for beat in beats] == [
        pb.TASK_STATUS_OK,
        pb.TASK_STATUS_LOST,
        pb.TASK_STATUS_AGAIN,
        pb.TASK_STATUS_OK,
    ]
    assert [beat.cancel_requested for beat in beats] == [False, False, False, True]
    assert beats[0].lease.ToMilliseconds() == SHORT_LEASE_MS
    assert [lease.lease_id for lease in doors.engine.renewed] == [
        item.lease_id for item in doors.engine.acquired
    ]


async def test_tasks_go_back_without_counting(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    task = await take(doors, handler)
    assert await handler.release(task.task_token) == [pb.TASK_STATUS_OK]
    assert doors.engine.released == [lease_of(doors)]


async def test_any_door_takes_what_is_told_of_any_task(doors: DoorStage) -> None:
    first, second = await doors.open(), await doors.open()
    key = doors.engine.keys.give(Permission.WORK)
    task = await take(doors, doors.handler(first, key=key))
    elsewhere = doors.handler(second, key=key)
    (beat,) = await elsewhere.heartbeat(task.task_token)
    assert beat.status == pb.TASK_STATUS_OK
    await elsewhere.complete(task.task_token, b"1")
    assert doors.engine.reports[0].lease == lease_of(doors)


async def refused(handler: Handler, token: str) -> list[Any]:
    """Present a token everywhere; return how it was refused."""
    found: list[Any] = []
    for told in (handler.complete(token), handler.fail(token)):
        with pytest.raises(PerdureError) as raised:
            await told
        found.append((raised.value.reason, dict(raised.value.metadata), raised.value.message))
    found.append([beat.status for beat in await handler.heartbeat(token)])
    found.append(await handler.release(token))
    return found


async def test_a_token_that_is_not_good_is_refused_everywhere_alike_and_names_nothing(
    doors: DoorStage,
) -> None:
    door = await doors.open()
    stranger = await doors.open(task_token_keys=("a key that no other has",))
    key = doors.engine.keys.give(Permission.WORK)
    handler = doors.handler(door, key=key)
    token = (await take(doors, handler)).task_token
    answers = [
        await refused(doors.handler(door, org="acme"), token),
        await refused(doors.handler(stranger, key=key), token),
        await refused(handler, token[:-4] + "AAAA"),
        await refused(handler, "no token"),
        await refused(handler, "\N{SNOWMAN}"),
    ]
    assert all(one == answers[0] for one in answers)
    assert [told[:2] for told in answers[0][:2]] == [(Reason.TASK_TOKEN_INVALID, {})] * 2
    assert answers[0][2:] == [[pb.TASK_STATUS_LOST], [pb.TASK_STATUS_LOST]]
    assert (doors.engine.reports, doors.engine.renewed, doors.engine.released) == ([], [], [])


async def test_a_heartbeat_that_nobody_answers_is_told_as_such(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    token = (await take(doors, handler)).task_token
    await doors.stage.server.stop()
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await handler.call("HeartbeatTasks", pb.HeartbeatTasksRequest(task_tokens=[token]), 1.0)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (pb.CompleteTaskRequest(), {"task_token"}),
        (pb.CompleteTaskRequest(output=b"{", cost="-1"), {"task_token", "output", "cost"}),
        (
            pb.CompleteTaskRequest(task_token="t", next_lanes=["io"] * 9),
            {"next_lanes", "worker_id"},
        ),
        (
            failing("odd", task_token="t", code="x" * 121, details=b"1 2"),
            {"code", "details", "class"},
        ),
        (pb.PollTasksRequest(max_tasks=101, lanes=[""]), {"worker_id", "max_tasks", "lanes[0]"}),
        (pb.HeartbeatTasksRequest(), {"task_tokens"}),
        (pb.ReleaseTasksRequest(task_tokens=["x"] * 257), {"task_tokens"}),
        (pb.DrainWorkerRequest(), {"worker_id"}),
        (pb.BeginEffectRequest(), {"task_token", "name", "kind", "call_token", "call_time"}),
        (
            pb.BeginEffectRequest(
                task_token="t", name="a/b", kind="odd", call_token="7", request_digest="\u00e9"
            ),
            {"name", "kind", "call_token", "call_time", "request_digest"},
        ),
        (pb.SettleEffectRequest(), {"task_token", "key", "call_token", "outcome"}),
        (
            pb.SettleEffectRequest(task_token="t", key="k", call_token="x", result=b"{"),
            {"call_token", "outcome", "result"},
        ),
        (pb.RegisterWorkerRequest(protocol_version=2), {"worker_id", "protocol_version"}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_everything_that_is_wrong_with_a_request_is_told_at_once(
    doors: DoorStage, request_: Any, fields: set[str]
) -> None:
    handler = doors.handler(await doors.open())
    method = type(request_).__name__.removesuffix("Request")
    with pytest.raises(InvalidArgument) as told:
        await handler.call(method, request_)
    assert {violation.field for violation in told.value.violations} == fields
