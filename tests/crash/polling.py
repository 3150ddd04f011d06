"""How the fail points of the worker's door are reached."""

from __future__ import annotations

import asyncio

import grpc
from perdure_contracts.v1.worker_service_pb2 import RegisterWorkerRequest
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceStub
from perdure_testkit.api_keys import give_key

from tests.crash.matrix import Entry
from tests.crash.stage import Stage

CALL_SECONDS = 5.0
TRIES = 30


async def by_knocking(stage: Stage, entry: Entry) -> None:
    """A handler presents a key that the worker's door does not know and has to ask about."""
    async with stage.place.connection() as connection:
        key = await give_key(connection, roles=["worker"])
    stage.arm(entry)
    knocking = asyncio.create_task(_knock(stage.engine.ports.door(), key))
    await stage.crash(entry)
    assert await knocking is grpc.StatusCode.OK


async def _knock(address: str, key: str) -> grpc.StatusCode:
    """Call until somebody answers; return the answer."""
    metadata = (("authorization", f"Bearer {key}"),)
    code = grpc.StatusCode.UNAVAILABLE
    async with grpc.aio.insecure_channel(address) as channel:
        call = WorkerServiceStub(channel).RegisterWorker
        for _ in range(TRIES):
            try:
                request = RegisterWorkerRequest(worker_id="crash")
                await call(request, timeout=CALL_SECONDS, metadata=metadata, wait_for_ready=True)
                return grpc.StatusCode.OK
            except grpc.aio.AioRpcError as error:
                code = error.code()
            if code is not grpc.StatusCode.UNAVAILABLE:
                break
    return code
