"""What a method says of an earlier call that is looked up by it (protocol p4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import grpc
import pytest
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_testkit.grpc_provider import COUNT, LOOKUP, Said

from tests.integration.worker.begun_scene import (
    KEY,
    GrpcSide,
    answering,
    begun,
    settling,
    status,
    told,
)
from tests.integration.worker.fake_engine import Stage

SECRET = "s3cr3t-of-the-account"


@pytest.fixture
async def side() -> AsyncIterator[GrpcSide]:
    found = GrpcSide()
    await found.start()
    yield found
    await found.stop()


def account(side: GrpcSide) -> dispatch_pb2.ConnectionGrant:
    return dispatch_pb2.ConnectionGrant(
        name="pay", base_url=f"http://{side.provider.target}", headers={"X-Key": SECRET}
    )


async def test_protocol_p4_the_message_of_a_look_up_is_told_and_its_result_is_the_steps(
    stage: Stage, side: GrpcSide
) -> None:
    answering(stage, status("LOOK_UP"))
    settling(stage, "PERFORMED", result=b'{"id":"c1"}')
    side.provider.script(Said(), method=LOOKUP)
    await stage.start()
    report = await stage.one_result(begun(side.input(metadata={"x-who": "7"}), kind="reconcile"))
    (item,) = stage.engine.settled
    assert (item.key, item.outcome) == (KEY, dispatch_pb2.EFFECT_OUTCOME_ANSWERED)
    assert json.loads(item.result) == {"id": "c1", "cents": "0", "worked": 0, "note": ""}
    ((request, metadata),) = side.provider.lookups
    assert (request.key, metadata["x-who"]) == (KEY, "7")
    assert (side.keys(), side.asked()) == ([], [""])
    assert report.output == b'{"id":"c1"}'


async def test_protocol_p4_a_method_that_finds_nothing_says_that_nothing_was_performed(
    stage: Stage, side: GrpcSide
) -> None:
    answering(stage, status("LOOK_UP"), status("BEGUN"))
    settling(stage, "NOT_PERFORMED")
    await stage.start()
    report = await stage.one_result(begun(side.input(), kind="reconcile"))
    (item,) = stage.engine.settled
    assert item.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert "NOT_FOUND" in item.note
    assert side.provider.times_worked(KEY) == 1
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED


async def test_protocol_p4_what_holds_nothing_can_be_read_in_the_answer_to_a_look_up(
    stage: Stage, side: GrpcSide
) -> None:
    answering(stage, status("LOOK_UP"))
    item = await told(stage, begun(side.input(method=COUNT), kind="reconcile"))
    assert item.outcome == dispatch_pb2.EFFECT_OUTCOME_ANSWERED
    assert json.loads(item.result)["worked"] == 0


@pytest.mark.parametrize(
    "said",
    [
        Said(status=grpc.StatusCode.UNAVAILABLE),
        Said(status=grpc.StatusCode.DEADLINE_EXCEEDED),
        Said(status=grpc.StatusCode.INVALID_ARGUMENT),
        Said(status=grpc.StatusCode.INTERNAL, details=f"{SECRET} is not known"),
        Said(raw=b"\x0a\xff"),
    ],
    ids=["unavailable", "deadline", "invalid", "internal", "unreadable"],
)
async def test_protocol_p4_a_method_that_tells_nothing_leaves_the_step_to_wait(
    stage: Stage, side: GrpcSide, said: Said
) -> None:
    answering(stage, status("LOOK_UP"))
    side.provider.script(said, method=LOOKUP)
    item = await told(stage, begun(side.input(), kind="reconcile", connection=account(side)))
    assert item.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert f"testkit.v1.Payments/{LOOKUP}" in item.note
    assert SECRET not in item.note
    assert side.provider.lookups[0][1]["x-key"] == SECRET


@pytest.mark.parametrize("has_account", [True, False])
async def test_p8_a_look_up_that_is_refused_parks_the_step_where_there_is_what_to_reconnect(
    stage: Stage, side: GrpcSide, *, has_account: bool
) -> None:
    answering(stage, status("LOOK_UP"))
    refusal = Said(status=grpc.StatusCode.UNAUTHENTICATED, details=f"{SECRET} is not known")
    side.provider.script(refusal, method=LOOKUP)
    if not has_account:
        item = await told(stage, begun(side.input(), kind="reconcile"))
        assert item.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
        return
    await stage.start()
    report = await stage.one_result(begun(side.input(), kind="reconcile", connection=account(side)))
    error_class = getattr(report.failure, "class")
    assert (error_class, report.failure.code) == ("authorisation", "GRPC_UNAUTHENTICATED")
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
    assert (stage.engine.settled, SECRET in str(report)) == ([], False)


async def test_protocol_p4_a_look_up_that_cannot_be_made_tells_nothing(
    stage: Stage, side: GrpcSide
) -> None:
    answering(stage, status("LOOK_UP"))
    item = await told(stage, begun(side.input(method="Nowhere"), kind="reconcile"))
    assert (item.outcome, side.keys()) == (dispatch_pb2.EFFECT_OUTCOME_UNKNOWN, [])
    assert "has no method Nowhere" in item.note


async def test_p4_what_is_looked_up_by_is_no_part_of_what_is_asked_for(
    stage: Stage, side: GrpcSide
) -> None:
    answering(stage, status("SUSPENDED"), status("SUSPENDED"), status("SUSPENDED"))
    worker = await stage.start()
    other = side.input() | {"input": side.input()["input"].replace(b'"cents": 7', b'"cents": 8')}
    for step, call in enumerate((side.input(), side.input(method=COUNT), other), start=1):
        lease = dispatch_pb2.StepLease(org="default", run_id=begun(call).lease.run_id, step=step)
        await stage.ready(begun(call, kind="reconcile", lease=lease))
    await stage.engine.until(lambda: len(stage.engine.begun) == 3)
    await worker.drain()
    digests = {wish.lease.step: wish.request_digest for wish in stage.engine.begun}
    assert digests[1] == digests[2] != digests[3]
