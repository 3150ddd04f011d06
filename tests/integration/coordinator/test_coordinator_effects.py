"""Effects over the wire: begun, settled, decided, and each once more (p4, R5, R12)."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_contracts.internal.v1 import dispatch_pb2 as dispatch
from perdure_contracts.internal.v1 import effects_pb2 as effects
from perdure_runtime.errors import Reason
from perdure_runtime.rpc.errors import from_status
from perdure_testkit.calls import Calls

FAX = "name: fax\nnodes: {a: {http: {method: POST, url: 'http://fax/'}}}"
BIG = b'{"pages": 18446744073709551616}'


def reason(error: Status) -> str:
    return from_status(error, grpc.StatusCode.FAILED_PRECONDITION).reason


async def granted(calls: Calls) -> tuple[UUID, dispatch.StepGrant]:
    await calls.publish(FAX)
    run = await calls.start("fax")
    return run, await calls.grant(run)


async def test_a_grant_says_what_is_to_be_begun_before_the_call(calls: Calls) -> None:
    run, grant = await granted(calls)
    told = grant.effect
    assert (told.begin_first, told.name, told.kind, told.calls) == (True, "request", "none", 0)
    assert told.key == f"{run}/a/request"


async def test_r5_a_call_is_begun_once_under_a_token(calls: Calls) -> None:
    run, grant = await granted(calls)
    token = uuid.uuid4()
    for _ in range(2):
        begun = await calls.begin_effect(grant.lease, token)
        assert begun.status == effects.BEGIN_EFFECT_STATUS_BEGUN
        assert (begun.key, begun.calls) == (f"{run}/a/request", 1)
        assert 25_000 < begun.lease_ms <= 30_000


async def test_r12_what_a_call_came_to_comes_back_byte_for_byte(calls: Calls) -> None:
    run, grant = await granted(calls)
    token = uuid.uuid4()
    key = (await calls.begin_effect(grant.lease, token)).key
    told = await calls.settle_effect(run, key, token, dispatch.EFFECT_OUTCOME_PERFORMED, result=BIG)
    assert (told.status, told.result) == (effects.SETTLE_EFFECT_STATUS_PERFORMED, BIG)
    again = await calls.begin_effect(grant.lease)
    assert (again.status, again.result) == (effects.BEGIN_EFFECT_STATUS_SETTLED, BIG)


async def test_another_request_under_a_key_is_refused_by_name(calls: Calls) -> None:
    _, grant = await granted(calls)
    await calls.begin_effect(grant.lease, request_digest=b"one")
    refused = await calls.begin_effect(grant.lease, request_digest=b"other")
    assert refused.status == effects.BEGIN_EFFECT_STATUS_REFUSED
    assert (
        from_status(refused.error, grpc.StatusCode.FAILED_PRECONDITION).reason
        == Reason.EFFECT_MISMATCH
    )


async def test_who_lost_the_step_begins_nothing(calls: Calls) -> None:
    _, grant = await granted(calls)
    await calls.release(grant.lease)
    lost = await calls.begin_effect(grant.lease)
    assert lost.status == effects.BEGIN_EFFECT_STATUS_LOST


async def test_an_unknown_call_waits_for_a_person_who_settles_it(calls: Calls) -> None:
    run, grant = await granted(calls)
    token = uuid.uuid4()
    key = (await calls.begin_effect(grant.lease, token)).key
    told = await calls.settle_effect(run, key, token, dispatch.EFFECT_OUTCOME_UNKNOWN)
    assert told.status == effects.SETTLE_EFFECT_STATUS_SUSPENDED
    decided = await calls.decide_effect(run, key, settled=BIG, reason="asked them")
    assert decided.changed
    assert not decided.HasField("error")
    second = await calls.decide_effect(run, key, not_performed=effects.NotPerformed())
    assert (
        from_status(second.error, grpc.StatusCode.FAILED_PRECONDITION).reason
        == Reason.EFFECT_DECIDED
    )


@pytest.mark.parametrize(
    "fields", [{"name": ""}, {"name": "a/b"}, {"kind": "often"}, {"call_ms": 0}]
)
async def test_a_wish_that_cannot_be_meant_is_refused(calls: Calls, fields: dict[str, Any]) -> None:
    _, grant = await granted(calls)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calls.begin_effect(grant.lease, **fields)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
