"""The door's service; each RPC reads its request, asks the part whose duty it is, and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceServicer
from perdure_runtime.gate.identity import Caller
from perdure_runtime.rpc import deadline

from perdure_worker.door import effect_requests, limits, requests
from perdure_worker.door.effects import Effects
from perdure_worker.door.handing import Handing, duration
from perdure_worker.door.keeping import Keeping
from perdure_worker.door.lanes import KnownLanes
from perdure_worker.door.polls import Polls
from perdure_worker.door.results import Results
from perdure_worker.hand_out import HandOut
from perdure_worker.outcome import Ended
from perdure_worker.releases import Releases

Context = grpc.aio.ServicerContext[Any, Any]
Identify = Callable[[Context], Caller]

ANSWER_SECONDS = 1.5
"""Of a poll's time: what is left for its answer, and for a task that was on its way."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Whose duty what is."""

    polls: Polls
    lanes: KnownLanes
    handing: Handing
    keeping: Keeping
    results: Results
    releases: Releases
    effects: Effects


class WorkerServicer(WorkerServiceServicer):
    """Tasks for handlers that poll; the org is the caller's key's."""

    def __init__(self, parts: Parts, identify: Identify) -> None:
        self._parts = parts
        self._identify = identify

    async def RegisterWorker(
        self, request: pb.RegisterWorkerRequest, context: Context
    ) -> pb.RegisterWorkerResponse:
        """Tell the limits."""
        requests.registration(request)
        lanes = self._parts.lanes
        await lanes.check(())
        return pb.RegisterWorkerResponse(
            protocol_version=limits.PROTOCOL_VERSION,
            max_wait=duration(limits.MAX_WAIT_SECONDS),
            max_tasks=limits.MAX_TASKS,
            hand_out=duration(lanes.hand_out_seconds),
            heartbeat_every=duration(lanes.heartbeat_seconds),
        )

    async def PollTasks(
        self, request: pb.PollTasksRequest, context: Context
    ) -> pb.PollTasksResponse:
        """Wait for tasks and hand them out."""
        org = self._identify(context).org
        left = deadline.remaining()
        bound = None if left is None else max(0.0, left - ANSWER_SECONDS)
        answer = await self._parts.polls.poll(requests.asked(request, org, bound))
        tasks = [task for one in answer.hand_outs if (task := await self._task(one)) is not None]
        return pb.PollTasksResponse(tasks=tasks, draining=answer.is_draining)

    async def HeartbeatTasks(
        self, request: pb.HeartbeatTasksRequest, context: Context
    ) -> pb.HeartbeatTasksResponse:
        """Keep tasks."""
        org = self._identify(context).org
        tokens = self._parts.handing.tokens
        read = [tokens.read(text, org) for text in requests.heartbeats(request)]
        return pb.HeartbeatTasksResponse(results=await self._parts.keeping.keep(read))

    async def CompleteTask(
        self, request: pb.CompleteTaskRequest, context: Context
    ) -> pb.CompleteTaskResponse:
        """End a task well."""
        token, outcome, follows = requests.completion(request)
        if follows.lanes:
            await self._parts.lanes.check(follows.lanes)
        return pb.CompleteTaskResponse(next=await self._told(context, token, outcome, follows))

    async def FailTask(self, request: pb.FailTaskRequest, context: Context) -> pb.FailTaskResponse:
        """Tell that a task failed."""
        token, outcome = requests.failure(request)
        await self._told(context, token, outcome, requests.Next((), ""))
        return pb.FailTaskResponse()

    async def BeginEffect(
        self, request: pb.BeginEffectRequest, context: Context
    ) -> pb.BeginEffectResponse:
        """Say whether a call may be made."""
        text, item = effect_requests.wish(request)
        return await self._parts.effects.begin(self._token(context, text), item)

    async def SettleEffect(
        self, request: pb.SettleEffectRequest, context: Context
    ) -> pb.SettleEffectResponse:
        """Take what became of a call."""
        text, item = effect_requests.settlement(request)
        return await self._parts.effects.settle(self._token(context, text), item)

    async def ReleaseTasks(
        self, request: pb.ReleaseTasksRequest, context: Context
    ) -> pb.ReleaseTasksResponse:
        """Hand tasks back."""
        org = self._identify(context).org
        tokens = self._parts.handing.tokens
        read = [tokens.read(text, org) for text in requests.releases(request)]
        return pb.ReleaseTasksResponse(results=await self._parts.keeping.hand_back(read))

    async def DrainWorker(
        self, request: pb.DrainWorkerRequest, context: Context
    ) -> pb.DrainWorkerResponse:
        """Answer the polls of a worker that ends."""
        org = self._identify(context).org
        polls = self._parts.polls.drain_worker(org, requests.drained(request))
        return pb.DrainWorkerResponse(polls=polls)

    async def _told(
        self, context: Context, text: str, outcome: Ended, follows: requests.Next
    ) -> pb.Task | None:
        return await self._parts.results.tell(self._token(context, text), outcome, follows)

    def _token(self, context: Context, text: str) -> TaskToken:
        token = self._parts.handing.tokens.read(text, self._identify(context).org)
        if token is None:
            raise requests.token_refused()
        return token

    async def _task(self, hand_out: HandOut) -> pb.Task | None:
        task = self._parts.handing.task(hand_out)
        if task is None:
            await self._parts.releases.release(hand_out.lease)
        return task
