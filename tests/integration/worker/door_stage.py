"""Doors of workers before a scripted engine, and what a handler in any language sends to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceStub
from perdure_runtime.access import Permission
from perdure_runtime.clock import SystemClock
from perdure_runtime.errors import PerdureError
from perdure_runtime.rpc.errors import from_call_error
from perdure_streams.names import Queue
from perdure_testkit.waiting import eventually
from perdure_worker import app
from perdure_worker.connections import Connections
from perdure_worker.door.assembly import Door

from tests.integration.worker.fake_engine import FakeEngine, Stage

TOKEN_KEYS = ("the secret of all doors",)
CALL_SECONDS = 20.0


class Handler:
    """A caller with a key; every call raises the error of the tree that it failed with."""

    def __init__(self, channel: grpc.aio.Channel, key: str, worker: str) -> None:
        self.stub = WorkerServiceStub(channel)
        self.metadata: tuple[tuple[str, str], ...] = (("authorization", f"Bearer {key}"),)
        self.worker = worker

    async def call(self, method: str, request: Any, timeout: float = CALL_SECONDS) -> Any:
        try:
            answer = getattr(self.stub, method)(request, timeout=timeout, metadata=self.metadata)
            return await answer
        except grpc.aio.AioRpcError as error:
            raise from_call_error(error) from error

    async def poll(
        self,
        *,
        room: int = 1,
        wait: float | None = None,
        lanes: Sequence[str] = (),
        timeout: float = 60.0,
    ) -> pb.PollTasksResponse:
        request = pb.PollTasksRequest(worker_id=self.worker, lanes=lanes, max_tasks=room)
        if wait is not None:
            request.wait.FromMilliseconds(round(wait * 1000))
        answer: pb.PollTasksResponse = await self.call("PollTasks", request, timeout)
        return answer

    async def heartbeat(self, *tokens: str) -> list[pb.Heartbeat]:
        request = pb.HeartbeatTasksRequest(task_tokens=tokens)
        return list((await self.call("HeartbeatTasks", request)).results)

    async def complete(self, token: str, output: bytes = b"", **fields: Any) -> pb.Task | None:
        request = pb.CompleteTaskRequest(task_token=token, output=output, **fields)
        answer = await self.call("CompleteTask", request)
        return answer.next if answer.HasField("next") else None

    async def fail(self, token: str, **fields: Any) -> None:
        await self.call("FailTask", pb.FailTaskRequest(task_token=token, **fields))

    async def release(self, *tokens: str) -> list[pb.TaskStatus.ValueType]:
        request = pb.ReleaseTasksRequest(task_tokens=tokens)
        return list((await self.call("ReleaseTasks", request)).results)

    async def drain(self) -> int:
        answer = await self.call("DrainWorker", pb.DrainWorkerRequest(worker_id=self.worker))
        return int(answer.polls)


@dataclass
class DoorStage:
    """An engine, an empty Redis, and the doors that a test opens."""

    stage: Stage
    doors: list[Door] = field(default_factory=list)
    connections: list[Connections] = field(default_factory=list)
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    @property
    def engine(self) -> FakeEngine:
        return self.stage.engine

    async def open(self, **settings: Any) -> Door:
        """Open the door of one more worker process."""
        usual: dict[str, Any] = {"grpc_port": 0, "task_token_keys": TOKEN_KEYS}
        config = replace(self.stage.config, **(usual | settings))
        name, clock = f"worker{len(self.doors)}", SystemClock()
        connections = await app.connect(config, name, clock)
        door = Door(config, name, connections, clock)
        await door.start()
        self.doors.append(door)
        self.connections.append(connections)
        return door

    def channel(self, door: Door) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{door.server.port}")
        self.channels.append(channel)
        return channel

    def handler(
        self, door: Door, *, org: str = "default", key: str = "", worker: str = "handler"
    ) -> Handler:
        """Return a caller with a key that may work for an org."""
        key = key or self.engine.keys.give(Permission.WORK, org=org)
        return Handler(self.channel(door), key, worker)

    async def announced(self, queue: Queue, door: int = 0) -> int | None:
        """Return for how many tasks a door says that there is room."""
        said = await self.stage.redis.get(queue.free_key(f"worker{door}/door"))
        return None if said is None else int(said)

    async def until_announced(self, room: int, queue: Queue) -> None:
        """Wait until the door says so."""

        async def is_said() -> bool:
            return await self.announced(queue) == room

        await eventually(is_said, what=f"{room} places are announced")

    async def waits(self, polling: asyncio.Task[Any], room: int, queue: Queue) -> None:
        """Wait until a poll stands in line, which is when its room is announced."""
        await self.until_announced(room, queue)
        assert not polling.done()

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()
        for door in self.doors:
            await door.stop()
        for connections in self.connections:
            await connections.redis.aclose()
            await connections.client.stop()


def refusal(outcome: object) -> str:
    """Return the reason of a failure, empty for none."""
    return str(outcome.reason) if isinstance(outcome, PerdureError) else ""
