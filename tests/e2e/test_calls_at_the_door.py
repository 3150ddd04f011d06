"""An outside call of a handler that polls, through all services (R8)."""

from __future__ import annotations

import json
import uuid

import grpc
import perdure
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceStub
from perdure_testkit.api_keys import give_key

from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

ORG = "callers"
"""The workers of the engine serve handlers of their own org alone."""
RESULT = b'{"id": 18446744073709551616}'
WORKFLOW = {"name": "charged", "nodes": {"pay": {"task": {"handler": "shop.pay"}}}}


async def test_r8_a_call_that_was_settled_at_the_door_is_known_to_the_next_who_polls(
    scene: Scene,
) -> None:
    async with scene.place.connection() as connection:
        own = await give_key(connection, org=ORG)
        key = await give_key(connection, org=ORG, roles=["worker"])
    address = scene.engine.ports.address("ingest")
    metadata = (("authorization", f"Bearer {key}"),)
    async with (
        perdure.Client(address, api_key=own, timeout=60.0) as client,
        grpc.aio.insecure_channel(scene.engine.ports.door()) as channel,
    ):
        door = WorkerServiceStub(channel)

        async def take() -> str:
            request = pb.PollTasksRequest(worker_id="e2e")
            (task,) = (await door.PollTasks(request, metadata=metadata, timeout=60.0)).tasks
            return task.task_token

        async def begin(token: str, call: str) -> pb.BeginEffectResponse:
            request = pb.BeginEffectRequest(
                task_token=token, name="charge", kind="none", call_token=call
            )
            request.call_time.FromSeconds(5)
            return await door.BeginEffect(request, metadata=metadata, timeout=20.0)

        await client.publish_workflow(json.dumps(WORKFLOW))
        run_id = (await client.start_run("charged")).run_id
        token, call = await take(), str(uuid.uuid4())
        begun, again = await begin(token, call), await begin(token, call)
        assert (begun.status, begun.calls) == (pb.BEGIN_EFFECT_STATUS_BEGUN, 1)
        assert (again.status, again.key) == (begun.status, f"{run_id}/pay/charge")
        told = pb.SettleEffectRequest(
            task_token=token,
            key=begun.key,
            call_token=call,
            outcome=pb.CALL_OUTCOME_PERFORMED,
            result=RESULT,
        )
        settled = await door.SettleEffect(told, metadata=metadata, timeout=20.0)
        assert settled.result == RESULT
        released = pb.ReleaseTasksRequest(task_tokens=[token])
        await door.ReleaseTasks(released, metadata=metadata, timeout=20.0)
        token = await take()
        known = await begin(token, str(uuid.uuid4()))
        assert (known.status, known.result) == (pb.BEGIN_EFFECT_STATUS_SETTLED, RESULT)
        done = pb.CompleteTaskRequest(task_token=token, output=known.result)
        await door.CompleteTask(done, metadata=metadata, timeout=20.0)
        run = await client.get_run(run_id)
        assert run.status == perdure.RunStatus.RUN_STATUS_COMPLETED
        assert [(effect.status, effect.calls) for effect in run.effects] == [("settled", 1)]
