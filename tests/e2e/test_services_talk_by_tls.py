"""The engine of these tests talks by TLS between its services, and in no other way."""

from __future__ import annotations

import grpc
import pytest
from perdure_contracts.internal.v1.control_service_pb2 import ListLanesRequest
from perdure_contracts.internal.v1.control_service_pb2_grpc import ControlServiceStub

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE


async def test_the_coordinator_of_an_engine_does_not_answer_in_plain_text(scene: Scene) -> None:
    address = f"127.0.0.1:{scene.engine.ports.coordinator}"
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ControlServiceStub(channel).ListLanes(ListLanesRequest(), timeout=5.0)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    run_id = await scene.start({"say": {"task": {"handler": "test.echo", "input": "hello"}}})
    assert (await scene.completed(run_id)).run_id == run_id
