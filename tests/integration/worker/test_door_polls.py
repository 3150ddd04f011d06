"""Long polls of the door: who is handed what, when a poll is answered, and what is read for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as engine_pb
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.errors import NotFound, Reason
from perdure_streams.names import GROUP, Queue
from perdure_testkit.waiting import eventually

from tests.integration.worker.door_stage import DoorStage, Handler
from tests.integration.worker.fake_engine import IO_DEFAULT, RUN_ID, STREAM, grant

IO_ACME = Queue("io", "acme")


async def begin(
    doors: DoorStage, handler: Handler, room: int = 1, *, beside: int = 0
) -> asyncio.Task[Any]:
    """Begin a poll and return once it stands in line, beside others with so much room."""
    polling = asyncio.create_task(handler.poll(room=room))
    await doors.waits(polling, beside + room, IO_DEFAULT)
    return polling


async def answered(doors: DoorStage, handler: Handler) -> None:
    """Have a poll be answered with a task, after which no read is in flight."""
    polling = await begin(doors, handler)
    await doors.stage.ready(grant(99))
    assert len((await polling).tasks) == 1
    await doors.until_announced(0, IO_DEFAULT)
    await doors.stage.until_empty()


async def delivered(doors: DoorStage) -> int:
    """Count the entries that were read and not settled."""
    pending = await doors.stage.redis.xpending(STREAM, GROUP)
    return int(pending["pending"])


async def test_a_poll_is_answered_as_soon_as_one_task_is_ready(doors: DoorStage) -> None:
    door = await doors.open()
    polling = await begin(doors, doors.handler(door))
    await doors.stage.ready(
        grant(3, scope="batch[2]", attempt=2, timeout_ms=60_000, traceparent="00-aa-bb-01")
    )
    (task,) = (await polling).tasks
    assert (task.run_id, task.step, task.node, task.scope) == (RUN_ID, 3, "node3", "batch[2]")
    assert (task.workflow, task.workflow_version, task.handler) == ("flow", 1, "work")
    assert (task.lane, task.input, task.attempt) == ("io", b'{"n":1}', 2)
    assert task.key_prefix == f"{RUN_ID}/batch[2]/node3"
    assert task.traceparent == "00-aa-bb-01"
    assert 50 < task.timeout.ToSeconds() < 60
    await doors.stage.until_empty()


async def test_the_history_names_who_polled(doors: DoorStage) -> None:
    door = await doors.open()
    polling = await begin(doors, doors.handler(door, worker="pod-7"))
    await doors.stage.ready(grant())
    await polling
    assert doors.engine.acquired[0].worker == "pod-7"


async def test_protocol_p3_a_handler_is_told_what_is_left_of_the_lease_less_a_margin(
    doors: DoorStage,
) -> None:
    door = await doors.open(lease_margin=2.0)
    polling = await begin(doors, doors.handler(door))
    await doors.stage.ready(grant(lease_ms=10_000))
    (task,) = (await polling).tasks
    assert 5_000 < task.lease.ToMilliseconds() <= 8_000


async def test_protocol_p3_a_hand_out_that_is_nearly_over_goes_back(doors: DoorStage) -> None:
    door = await doors.open()
    polling = await begin(doors, doors.handler(door))
    await doors.stage.ready(grant(lease_ms=900))
    assert list((await polling).tasks) == []
    assert [lease.step for lease in doors.engine.released] == [1]


async def test_a_poll_without_a_task_is_answered_empty_and_well(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    assert await handler.poll(wait=0.05) == pb.PollTasksResponse()


async def test_a_poll_is_answered_before_the_deadline_of_its_call(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    assert await handler.poll(wait=55.0, timeout=1.6) == pb.PollTasksResponse()


async def test_nothing_is_read_while_nobody_polls(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    await answered(doors, handler)
    await doors.stage.ready(grant(1))
    assert await doors.announced(IO_DEFAULT) == 0
    assert (await delivered(doors), len(doors.engine.acquired)) == (0, 1)
    assert [task.step for task in (await handler.poll()).tasks] == [1]


async def test_no_more_is_read_than_polls_have_room_for(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    await answered(doors, handler)
    for step in range(1, 6):
        await doors.stage.ready(grant(step))
    found = (await handler.poll(room=2)).tasks
    assert [task.step for task in found] == [1, 2]
    await eventually(lambda: _length_is(doors, 3), what="two entries are settled")
    assert (await delivered(doors), len(doors.engine.acquired)) == (0, 3)


async def test_what_was_read_for_a_poll_that_has_gone_is_the_next_one_s_at_once(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    await handler.poll(wait=0.01)
    await doors.stage.ready(grant(1))
    assert [task.step for task in (await handler.poll(wait=2.0)).tasks] == [1]


async def _length_is(doors: DoorStage, expected: int) -> bool:
    return bool(await doors.stage.redis.xlen(STREAM) == expected)


async def test_whoever_came_first_is_handed_the_first_task(doors: DoorStage) -> None:
    door = await doors.open()
    first = await begin(doors, doors.handler(door, worker="first"))
    second = await begin(doors, doors.handler(door, worker="second"), beside=1)
    await doors.stage.ready(grant(1))
    assert [task.step for task in (await first).tasks] == [1]
    assert not second.done()
    await doors.stage.ready(grant(2))
    assert [task.step for task in (await second).tasks] == [2]


async def test_the_room_of_polls_is_announced_as_free_slots_are(doors: DoorStage) -> None:
    door = await doors.open()
    three = await begin(doors, doors.handler(door), 3)
    polls = [three, await begin(doors, doors.handler(door), 4, beside=3)]
    assert await doors.announced(IO_DEFAULT) == 7
    for polling in polls:
        polling.cancel()
    await doors.until_announced(0, IO_DEFAULT)


async def test_a_poll_may_wait_in_several_lanes(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    polling = asyncio.create_task(handler.poll(lanes=["io", "slow"]))
    await doors.waits(polling, 1, Queue("slow", "default"))
    doors.engine.grants[1] = grant(1, queue="slow:default")
    await doors.stage.hint(1, lane="slow")
    (task,) = (await polling).tasks
    assert task.lane == "slow"


async def test_the_org_of_the_key_says_whose_tasks_are_handed_out(doors: DoorStage) -> None:
    door = await doors.open()
    polling = asyncio.create_task(doors.handler(door, org="acme").poll())
    await doors.waits(polling, 1, IO_ACME)
    await doors.stage.ready(grant(1))
    doors.engine.grants[2] = grant(2, queue=str(IO_ACME))
    await doors.stage.hint(2, org="acme")
    assert [task.step for task in (await polling).tasks] == [2]
    assert [item.org for item in doors.engine.acquired] == ["acme"]


async def test_a_lane_that_there_is_not_is_told(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    with pytest.raises(NotFound) as refused:
        await handler.poll(lanes=["io", "none"])
    assert refused.value.reason == Reason.LANE_NOT_FOUND
    assert dict(refused.value.metadata) == {"lane": "none"}


async def test_a_caller_that_went_away_is_handed_nothing(doors: DoorStage) -> None:
    door = await doors.open()
    gone = await begin(doors, doors.handler(door, worker="gone"))
    gone.cancel()
    await doors.until_announced(0, IO_DEFAULT)
    await doors.stage.ready(grant(1))
    assert [task.step for task in (await doors.handler(door).poll()).tasks] == [1]
    assert [item.worker for item in doors.engine.acquired] == ["handler"]


async def _away_while_asking(doors: DoorStage, polling: asyncio.Task[Any], room: int) -> None:
    """Have the caller of a poll go away while its task is being asked for."""

    def answer(item: engine_pb.AcquireLeaseItem) -> engine_pb.AcquireLeaseResult:
        polling.cancel()
        return engine_pb.AcquireLeaseResult(status=engine_pb.ACQUIRE_STATUS_AGAIN)

    doors.engine.answer_acquire = answer
    await doors.stage.ready(grant(1))
    await doors.until_announced(room, IO_DEFAULT)
    doors.engine.answer_acquire = doors.engine.give


async def test_a_task_whose_caller_went_away_is_the_next_one_s(doors: DoorStage) -> None:
    door = await doors.open()
    gone = await begin(doors, doors.handler(door, worker="gone"))
    second = await begin(doors, doors.handler(door, worker="second"), beside=1)
    await _away_while_asking(doors, gone, 1)
    assert [task.step for task in (await second).tasks] == [1]
    assert doors.engine.released == []


async def test_a_task_that_nobody_waits_for_any_more_goes_back_at_once(doors: DoorStage) -> None:
    door = await doors.open()
    gone = await begin(doors, doors.handler(door, worker="gone"))
    await _away_while_asking(doors, gone, 0)
    await doors.engine.until(lambda: doors.engine.released)
    assert doors.engine.released[0].lease_id == doors.engine.acquired[0].lease_id
    await doors.stage.until_empty()


async def test_f091_an_answer_stays_below_the_size_of_a_message(doors: DoorStage) -> None:
    large = b'"' + b"x" * 1_000_000 + b'"'
    handler = doors.handler(await doors.open())
    await answered(doors, handler)
    for step in range(1, 6):
        await doors.stage.ready(grant(step, input=large))
    found = (await handler.poll(room=10)).tasks
    assert 1 <= len(found) <= 3
    assert all(len(task.input) == len(large) for task in found)
    handed_back = [lease.step for lease in doors.engine.released]
    assert not {task.step for task in found} & set(handed_back)


async def test_a_drain_answers_every_poll_empty_and_well_and_takes_what_is_told(
    doors: DoorStage,
) -> None:
    door = await doors.open()
    handler = doors.handler(door)
    held = await begin(doors, handler)
    await doors.stage.ready(grant(1))
    (task,) = (await held).tasks
    await doors.until_announced(0, IO_DEFAULT)
    polling = await begin(doors, handler)
    await door.drain()
    assert await polling == pb.PollTasksResponse(draining=True)
    assert await handler.poll() == pb.PollTasksResponse(draining=True)
    assert [beat.status for beat in await handler.heartbeat(task.task_token)] == [pb.TASK_STATUS_OK]
    await handler.complete(task.task_token, b"1")
    assert [item.output for item in doors.engine.reports] == [b"1"]


async def test_a_worker_that_ends_has_its_polls_answered_and_no_other_has(
    doors: DoorStage,
) -> None:
    door = await doors.open()
    ending, other = doors.handler(door, worker="ending"), doors.handler(door, worker="other")
    theirs, its = await begin(doors, other), await begin(doors, ending, beside=1)
    assert await doors.handler(door, org="acme", worker="ending").drain() == 0
    assert await ending.drain() == 1
    assert await its == pb.PollTasksResponse(draining=True)
    assert await ending.poll() == pb.PollTasksResponse(draining=True)
    assert not theirs.done()
    await doors.stage.ready(grant(1))
    assert len((await theirs).tasks) == 1


async def test_the_limits_are_told(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    limits = await handler.call("RegisterWorker", pb.RegisterWorkerRequest(worker_id="w"))
    assert (limits.protocol_version, limits.max_tasks) == (1, 100)
    assert limits.max_wait.ToSeconds() == 55
    assert limits.hand_out.ToSeconds() == 10
    assert limits.heartbeat_every.ToMilliseconds() == 3333
