"""Outside calls of tasks, begun and settled at whatever door (protocol p4)."""

from __future__ import annotations

from typing import Any

import pytest
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as engine_pb
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.access import Permission
from perdure_runtime.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)
from perdure_runtime.rpc.errors import to_status

from tests.integration.worker.door_stage import DoorStage, Handler
from tests.integration.worker.fake_engine import RUN_ID, grant

CALL = "01890a5d-ac96-774b-bcce-b302099a8057"
KEY = f"{RUN_ID}/node1/charge"


async def take(doors: DoorStage, handler: Handler) -> str:
    await doors.stage.ready(grant(1))
    (task,) = (await handler.poll(wait=20.0)).tasks
    return task.task_token


def wish(token: str, **fields: Any) -> pb.BeginEffectRequest:
    usual = {"name": "charge", "kind": "provider", "call_token": CALL}
    request = pb.BeginEffectRequest(task_token=token, **(usual | fields))
    request.call_time.FromMilliseconds(1500)
    return request


def outcome(token: str, **fields: Any) -> pb.SettleEffectRequest:
    usual: dict[str, Any] = {"key": KEY, "call_token": CALL, "outcome": pb.CALL_OUTCOME_PERFORMED}
    return pb.SettleEffectRequest(task_token=token, **(usual | fields))


def answering(doors: DoorStage, status: str, **fields: Any) -> None:
    number = engine_pb.BeginEffectStatus.Value(f"BEGIN_EFFECT_STATUS_{status}")
    doors.engine.answer_begin = lambda _: engine_pb.BeginEffectResult(status=number, **fields)


async def test_a_call_is_begun_under_the_lease_of_its_task_and_settled_byte_for_byte(
    doors: DoorStage,
) -> None:
    first, second = await doors.open(), await doors.open()
    key = doors.engine.keys.give(Permission.WORK)
    handler = doors.handler(first, key=key)
    token = await take(doors, handler)
    request = wish(token, request_digest="cents=7")
    request.keep.FromSeconds(60)
    begun = await handler.call("BeginEffect", request)
    (item,) = doors.engine.begun
    assert item.lease.lease_id == doors.engine.acquired[0].lease_id
    assert (item.name, item.kind, item.token) == ("charge", "provider", CALL)
    assert (item.call_ms, item.keep_ms, item.request_digest) == (1500, 60_000, b"cents=7")
    assert (begun.status, begun.key, begun.calls) == (pb.BEGIN_EFFECT_STATUS_BEGUN, KEY, 1)
    assert begun.lease.ToMilliseconds() > 1500
    result = b'{"n": 18446744073709551616}'
    told = outcome(token, result=result, note="slow\0down")
    settled = await doors.handler(second, key=key).call("SettleEffect", told)
    assert (settled.status, settled.result) == (pb.SETTLE_EFFECT_STATUS_PERFORMED, result)
    (known,) = doors.engine.settled
    assert (known.run_id, known.org, known.key, known.token) == (RUN_ID, "default", KEY, CALL)
    assert known.outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert known.note == "slow\N{REPLACEMENT CHARACTER}down"


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("SETTLED", {"key": KEY, "result": b'{"id": 7}'}),
        ("LOOK_UP", {"key": KEY}),
        ("SUSPENDED", {"why": "review"}),
        ("CANCELLED", {}),
    ],
)
async def test_what_is_to_be_done_about_a_call_is_told_as_the_coordinator_says(
    doors: DoorStage, status: str, fields: dict[str, Any]
) -> None:
    handler = doors.handler(await doors.open())
    answering(doors, status, **fields)
    answer = await handler.call("BeginEffect", wish(await take(doors, handler), kind="reconcile"))
    expected = pb.BeginEffectStatus.Value(f"BEGIN_EFFECT_STATUS_{status}")
    assert answer == pb.BeginEffectResponse(status=expected, **fields)
    assert doors.engine.begun[0].can_look_up


async def test_r6_no_call_is_begun_for_a_task_that_is_lost_or_under_another_request(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    token = await take(doors, handler)
    mismatch = to_status(FailedPrecondition("another request", reason=Reason.EFFECT_MISMATCH))
    for status, fields, reason in (
        ("LOST", {}, Reason.LEASE_LOST),
        ("REFUSED", {"error": mismatch}, Reason.EFFECT_MISMATCH),
    ):
        answering(doors, status, **fields)
        with pytest.raises(FailedPrecondition) as refused:
            await handler.call("BeginEffect", wish(token))
        assert refused.value.reason == reason


async def test_r8_a_call_whose_beginner_went_away_unanswered_is_not_taken_back(
    doors: DoorStage,
) -> None:
    handler = doors.handler(await doors.open())
    token = await take(doors, handler)
    usual = doors.engine.answer_begin
    answering(doors, "AGAIN")
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await handler.call("BeginEffect", wish(token), 1.0)
    doors.engine.answer_begin = usual
    again = await handler.call("BeginEffect", wish(token))
    assert again.status == pb.BEGIN_EFFECT_STATUS_BEGUN
    assert {item.token for item in doors.engine.begun} == {CALL}
    assert doors.engine.settled == []


async def test_nothing_is_told_of_a_call_of_another_run(doors: DoorStage) -> None:
    handler = doors.handler(await doors.open())
    token = await take(doors, handler)
    with pytest.raises(NotFound) as refused:
        await handler.call("SettleEffect", outcome(token, key=f"{CALL}/node1/charge"))
    assert refused.value.reason == Reason.EFFECT_NOT_FOUND
    assert doors.engine.settled == []


async def test_a_token_that_is_not_good_begins_and_settles_nothing(doors: DoorStage) -> None:
    door = await doors.open()
    token = await take(doors, doors.handler(door))
    stranger = doors.handler(door, org="acme")
    for method, request in (("BeginEffect", wish(token)), ("SettleEffect", outcome(token))):
        with pytest.raises(PerdureError) as refused:
            await stranger.call(method, request)
        assert refused.value.reason == Reason.TASK_TOKEN_INVALID
    assert (doors.engine.begun, doors.engine.settled) == ([], [])
