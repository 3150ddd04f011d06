"""How much work queues hold, as autoscalers ask for it: over our own contract and over KEDA's."""

from __future__ import annotations

import grpc
import pytest
from perdure_contracts.internal.keda import external_scaler_pb2 as keda
from perdure_contracts.internal.keda.external_scaler_pb2_grpc import ExternalScalerStub
from perdure_contracts.internal.v1.backlog_pb2 import GetLaneBacklogRequest
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

TASK = "name: w\nnodes: {a: {task: {handler: h}}}"
QUEUES = ("io:default", "io:shared")


@pytest.fixture
async def filled(calls: Calls) -> Calls:
    """Four steps wait in io:default and one runs."""
    await calls.publish(TASK)
    runs = [await calls.start("w") for _ in range(5)]
    await calls.grant(runs[0])
    return calls


def trigger(**metadata: str) -> keda.ScaledObjectRef:
    return keda.ScaledObjectRef(name="worker", namespace="default", scalerMetadata=metadata)


async def backlog(calls: Calls, *queues: str, limit: int = 0) -> list[tuple[int, int]]:
    request = GetLaneBacklogRequest(queues=queues, limit=limit)
    answer = await calls.hot.GetLaneBacklog(request, timeout=10)
    assert [one.queue for one in answer.backlogs] == list(queues)
    return [(one.waiting, one.running) for one in answer.backlogs]


async def test_waiting_and_running_steps_are_counted_by_queue(filled: Calls) -> None:
    assert await backlog(filled, *QUEUES) == [(4, 1), (0, 0)]
    request = GetLaneBacklogRequest(queues=QUEUES)
    ages = [one.oldest_seconds for one in (await filled.hot.GetLaneBacklog(request)).backlogs]
    assert ages[0] > 0
    assert ages[1] == 0


async def test_sent_steps_wait_too_and_counting_ends_at_the_limit(
    filled: Calls, database: Database
) -> None:
    admin = await database.connect()
    await admin.execute(
        "UPDATE outbox SET state = 'sent', sent_at = now(), entry_id = '1-1'"
        " WHERE outbox_id IN (SELECT outbox_id FROM outbox LIMIT 2)"
    )
    assert await backlog(filled, "io:default") == [(4, 1)]
    assert await backlog(filled, "io:default", limit=3) == [(3, 1)]


@pytest.mark.parametrize("queues", [(), ("io",), ("io:default", ":x"), ("io:x",) * 101])
async def test_queues_that_are_none_are_refused(calls: Calls, queues: tuple[str, ...]) -> None:
    request = GetLaneBacklogRequest(queues=queues)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calls.hot.GetLaneBacklog(request, timeout=10)
    assert from_call_error(refused.value).reason == "FIELD_INVALID"


async def test_keda_learns_how_many_steps_there_are_and_how_many_a_replica_should_have(
    filled: Calls,
) -> None:
    stub = ExternalScalerStub(filled.channel)
    worker = trigger(queues="io:default, io:shared", steps="12.8")
    (spec,) = (await stub.GetMetricSpec(worker)).metricSpecs
    request = keda.GetMetricsRequest(scaledObjectRef=worker, metricName=spec.metricName)
    (value,) = (await stub.GetMetrics(request)).metricValues
    assert (spec.targetSizeFloat, value.metricValueFloat) == (12.8, 5.0)
    assert value.metricName == spec.metricName
    assert (await stub.IsActive(worker)).result
    idle = trigger(queues="slow:default", steps="1")
    assert not (await stub.IsActive(idle)).result
    stream = stub.StreamIsActive(worker)
    first = await anext(aiter(stream))
    assert first.result
    stream.cancel()


@pytest.mark.parametrize("steps", ["", "none", "0", "-1", "inf", "nan"])
async def test_a_trigger_that_cannot_be_counted_by_is_refused(calls: Calls, steps: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await ExternalScalerStub(calls.channel).GetMetricSpec(trigger(queues="a:b", steps=steps))
    assert from_call_error(refused.value).reason == "FIELD_INVALID"
