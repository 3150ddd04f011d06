"""A coordinator with scripted answers behind a real gRPC server, and a worker beside it."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perdure import Handler, Handlers
from perdure_contracts.internal.v1 import connections_pb2 as connections
from perdure_contracts.internal.v1 import control_service_pb2 as control
from perdure_contracts.internal.v1 import control_service_pb2_grpc as control_grpc
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1 import coordinator_service_pb2_grpc as pb_grpc
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as effects
from perdure_contracts.internal.v1 import key_service_pb2 as keys
from perdure_contracts.internal.v1 import key_service_pb2_grpc as keys_grpc
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepRequest, AwaitStepResponse
from perdure_runtime.access import Permission
from perdure_runtime.api_keys import make_key
from perdure_runtime.clock import SystemClock
from perdure_runtime.errors import Reason, Unauthenticated, Unimplemented
from perdure_runtime.rpc.conversing import Conversing
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_streams.message import Hint, encode
from perdure_streams.names import GROUP, Queue
from perdure_testkit.waiting import eventually
from perdure_worker import app
from perdure_worker.config import WorkerConfig
from perdure_worker.worker import Worker
from redis.asyncio import Redis

PATIENCE = 60.0
LONG_LEASE_MS = 10_000
SHORT_LEASE_MS = 1_600
"""Renewed after half a second, and above the margin under which a step is not begun."""

IO_DEFAULT = Queue("io", "default")
STREAM = str(IO_DEFAULT.streams(1)[0])
RUN_ID = str(uuid.UUID(int=7))


def grant(step: int = 1, **fields: Any) -> dispatch_pb2.StepGrant:
    """A hand-out of a task step of handler `work`, with whatever a test says otherwise."""
    lease = dispatch_pb2.StepLease(org="default", run_id=RUN_ID, step=step, fence=1, lease_id="?")
    usual: dict[str, Any] = {
        "lease": lease,
        "lease_ms": LONG_LEASE_MS,
        "node": f"node{step}",
        "workflow": "flow",
        "workflow_version": 1,
        "kind": dispatch_pb2.STEP_KIND_TASK,
        "handler": "work",
        "queue": str(IO_DEFAULT),
        "input": b'{"n":1}',
        "attempt": 1,
    }
    return dispatch_pb2.StepGrant(**(usual | fields))


def granted(found: dispatch_pb2.StepGrant) -> pb.AcquireLeaseResult:
    return pb.AcquireLeaseResult(status=pb.ACQUIRE_STATUS_GRANTED, grant=found)


class FakeEngine(pb_grpc.CoordinatorServiceServicer, control_grpc.ControlServiceServicer):
    """Records every item; answers come from the `answer_*` functions, which a test may replace."""

    def __init__(self) -> None:
        self.grants: dict[int, dispatch_pb2.StepGrant] = {}
        self.nexts: dict[int, dispatch_pb2.StepGrant] = {}
        self.acquire_calls: list[pb.AcquireLeaseRequest] = []
        self.acquired: list[pb.AcquireLeaseItem] = []
        self.renewed: list[dispatch_pb2.StepLease] = []
        self.reports: list[pb.ReportResultItem] = []
        self.report_calls: list[pb.ReportResultRequest] = []
        self.released: list[dispatch_pb2.StepLease] = []
        self.answer_acquire: Callable[[pb.AcquireLeaseItem], pb.AcquireLeaseResult] = self.give
        self.answer_renew: Callable[[dispatch_pb2.StepLease], pb.RenewLeaseResult] = self.extend
        self.answer_report: Callable[[pb.ReportResultItem], pb.ReportResultResult] = self.apply
        self.begun: list[effects.BeginEffectItem] = []
        self.settled: list[effects.SettleEffectItem] = []
        self.answer_begin: Callable[[effects.BeginEffectItem], effects.BeginEffectResult] = (
            self.begin
        )
        self.answer_settle: Callable[[effects.SettleEffectItem], effects.SettleEffectResult] = (
            self.settle
        )
        self.opened: list[connections.OpenConnectionRequest] = []
        self.answer_open: Callable[
            [connections.OpenConnectionRequest], connections.OpenConnectionResponse
        ] = lambda request: connections.OpenConnectionResponse(
            status=connections.OPEN_CONNECTION_STATUS_MISSING
        )
        self.offers: list[AwaitStepRequest] = []
        self.waiting: deque[asyncio.Future[AwaitStepResponse]] = deque()
        self.is_old = False
        """Whether it knows nothing of offers."""
        self.keys = FakeKeys()
        self.draining = asyncio.Event()
        service = pb.DESCRIPTOR.services_by_name["CoordinatorService"]
        self._conversing = Conversing(self, service, self.draining)
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what was recorded fulfils `condition`."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def give(self, item: pb.AcquireLeaseItem) -> pb.AcquireLeaseResult:
        """Grant the step if it is among the grants, else say that it is gone."""
        if item.step not in self.grants:
            return pb.AcquireLeaseResult(status=pb.ACQUIRE_STATUS_GONE)
        found = dispatch_pb2.StepGrant()
        found.CopyFrom(self.grants[item.step])
        found.lease.lease_id = item.lease_id
        return granted(found)

    def extend(self, _: dispatch_pb2.StepLease) -> pb.RenewLeaseResult:
        return pb.RenewLeaseResult(status=pb.RENEW_STATUS_RENEWED, lease_ms=SHORT_LEASE_MS)

    def apply(self, item: pb.ReportResultItem) -> pb.ReportResultResult:
        """Apply the result; hand out what follows the step, if the worker takes it."""
        result = pb.ReportResultResult(status=pb.ITEM_STATUS_APPLIED)
        if item.next_lease_id and item.lease.step in self.nexts:
            result.next.CopyFrom(self.nexts[item.lease.step])
            result.next.lease.lease_id = item.next_lease_id
        return result

    def begin(self, item: effects.BeginEffectItem) -> effects.BeginEffectResult:
        """Let the call be made."""
        return effects.BeginEffectResult(
            status=effects.BEGIN_EFFECT_STATUS_BEGUN,
            key=f"{RUN_ID}/node{item.lease.step}/{item.name}",
            calls=1,
            lease_ms=item.call_ms + LONG_LEASE_MS,
        )

    def settle(self, item: effects.SettleEffectItem) -> effects.SettleEffectResult:
        """Believe what is told; one whose outcome is unknown waits for a person."""
        if item.outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED:
            status = effects.SETTLE_EFFECT_STATUS_PERFORMED
            return effects.SettleEffectResult(status=status, result=item.result)
        is_known = item.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
        return effects.SettleEffectResult(
            status=effects.SETTLE_EFFECT_STATUS_NOT_PERFORMED
            if is_known
            else effects.SETTLE_EFFECT_STATUS_SUSPENDED
        )

    def Converse(self, requests: Any, context: Any) -> Any:
        return self._conversing.serve(requests, context)

    async def BeginEffect(self, request: effects.BeginEffectRequest, _: Any) -> Any:
        self._record(self.begun, request.items)
        return effects.BeginEffectResponse(results=map(self.answer_begin, request.items))

    async def SettleEffect(self, request: effects.SettleEffectRequest, _: Any) -> Any:
        self._record(self.settled, request.items)
        return effects.SettleEffectResponse(results=map(self.answer_settle, request.items))

    async def AcquireLease(self, request: pb.AcquireLeaseRequest, _: Any) -> Any:
        self.acquire_calls.append(request)
        self._record(self.acquired, request.items)
        return pb.AcquireLeaseResponse(results=map(self.answer_acquire, request.items))

    async def AwaitStep(self, request: AwaitStepRequest, _: Any) -> Any:
        """Answer with nothing when the time is over, unless `hand` answered before."""
        self._record(self.offers, [request])
        if self.is_old:
            raise Unimplemented("no such method", reason=Reason.METHOD_UNKNOWN)
        answer: asyncio.Future[AwaitStepResponse] = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        try:
            async with asyncio.timeout(request.wait_ms / 1000):
                return await answer
        except TimeoutError:
            return AwaitStepResponse()

    async def hand(self, found: dispatch_pb2.StepGrant, waited_ms: int = 0) -> None:
        """Answer an offer with a step, as soon as one waits for it."""
        await self.until(lambda: any(not answer.done() for answer in self.waiting))
        found.lease.lease_id = self.offers[-1].lease_id
        answer = next(answer for answer in self.waiting if not answer.done())
        answer.set_result(AwaitStepResponse(grant=found, waited_ms=waited_ms))

    async def RenewLease(self, request: pb.RenewLeaseRequest, _: Any) -> Any:
        self._record(self.renewed, request.leases)
        return pb.RenewLeaseResponse(results=map(self.answer_renew, request.leases))

    async def ReportResult(self, request: pb.ReportResultRequest, _: Any) -> Any:
        self.report_calls.append(request)
        self._record(self.reports, request.items)
        return pb.ReportResultResponse(results=map(self.answer_report, request.items))

    async def ReleaseLease(self, request: pb.ReleaseLeaseRequest, _: Any) -> Any:
        self._record(self.released, request.leases)
        results = [pb.ITEM_STATUS_APPLIED for _ in request.leases]
        return pb.ReleaseLeaseResponse(results=results)

    async def ListLanes(self, request: control.ListLanesRequest, _: Any) -> Any:
        lanes = [
            control.Lane(
                lane=name, shards=1, stream_ceiling=10, lease_ms=30_000, hand_out_ms=LONG_LEASE_MS
            )
            for name in ("io", "slow")
        ]
        return control.ListLanesResponse(lanes=lanes)

    async def OpenConnection(self, request: connections.OpenConnectionRequest, _: Any) -> Any:
        self._record(self.opened, [request])
        return self.answer_open(request)

    async def StartRun(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def CancelRun(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def CommandRun(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ReplayDeadLetters(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def FireTimers(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ExpireLeases(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def Signal(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def DeliverSignals(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def DecideEffect(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def BeginRuns(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ExpireRuns(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def PublishWorkflow(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def PutConnection(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def CommandConnection(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def SweepConnections(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def MigrateRuns(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def GetLaneBacklog(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def PutLane(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def DeleteLane(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def PutOrgWeight(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    def _record(self, record: list[Any], items: Any) -> None:
        record.extend(items)
        self._changed.set()


class FakeKeys(keys_grpc.KeyServiceServicer):
    """Knows the keys that a test gives out, by their prefixes."""

    def __init__(self) -> None:
        self.holders: dict[str, keys.CheckKeyResponse] = {}
        self.refusals: dict[str, Reason] = {}
        self.checked: list[str] = []
        self.used: list[str] = []

    def give(self, *permissions: Permission, org: str = "default", **fields: Any) -> str:
        """Make a key; return what is presented."""
        made = make_key()
        key_id = made.prefix
        usual: dict[str, Any] = {"actor": f"key {key_id}", "good_for": 2.0, "key_id": key_id}
        self.holders[made.prefix] = keys.CheckKeyResponse(
            org=org, permissions=permissions, **(usual | fields)
        )
        return made.text

    async def CheckKey(self, request: keys.CheckKeyRequest, _: Any) -> Any:
        prefix = request.secret.prefix
        self.checked.append(prefix)
        if prefix in self.refusals or prefix not in self.holders:
            reason = self.refusals.get(prefix, Reason.KEY_INVALID)
            raise Unauthenticated("not good", reason=reason)
        return self.holders[prefix]

    async def NoteKeyUse(self, request: keys.NoteKeyUseRequest, _: Any) -> Any:
        self.used.extend(request.prefixes)
        return keys.NoteKeyUseResponse()

    async def CreateKey(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def RotateKey(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def RevokeKey(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def PutMember(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def RemoveMember(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


def engine_server(engine: FakeEngine, address: str) -> RpcServer:
    """A real server in front of the engine."""
    services = {
        "perdure.internal.v1.CoordinatorService": lambda server: (
            pb_grpc.add_CoordinatorServiceServicer_to_server(engine, server)
        ),
        "perdure.internal.v1.ControlService": lambda server: (
            control_grpc.add_ControlServiceServicer_to_server(engine, server)
        ),
        "perdure.internal.v1.KeyService": lambda server: keys_grpc.add_KeyServiceServicer_to_server(
            engine.keys, server
        ),
    }
    settings = ServerSettings(address, reflection=False, grace=0.5)
    return RpcServer(services, settings, draining=engine.draining)


@dataclass
class Stage:
    """An engine behind its server, an empty Redis, and the workers that a test starts."""

    engine: FakeEngine
    server: RpcServer
    redis: Redis
    config: WorkerConfig
    workers: list[Worker] = field(default_factory=list)

    async def start(self, handlers: Handlers | None = None, **settings: Any) -> Worker:
        """Start a worker with these handlers and settings."""
        config = replace(self.config, **settings)
        found: Mapping[str, Handler] = {handler.name: handler for handler in handlers or ()}
        plans = config.pool_plans()
        threads = config.threads or sum(plan.slots for plan in plans)
        name = f"worker{len(self.workers)}"
        clock = SystemClock()
        connections = await app.connect(config, name, clock)
        worker = app.assemble(config, name, found, plans, threads, connections, clock)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def hint(self, *steps: int, org: str = "default", lane: str = "io") -> None:
        """Add an entry for each step to the stream of a lane of an org."""
        stream = Queue(lane, org).streams(1)[0]
        for step in steps:
            fields = encode(Hint(org, uuid.UUID(RUN_ID), step))
            await self.redis.xadd(str(stream), dict(fields))

    async def ready(self, found: dispatch_pb2.StepGrant) -> None:
        """Make a step ready: the engine would grant it, and the stream tells."""
        self.engine.grants[found.lease.step] = found
        await self.hint(found.lease.step)

    async def until_empty(self) -> None:
        """Wait until neither the stream nor its pending list holds an entry."""
        look: Callable[[], bool | Awaitable[bool]] = self._is_empty
        await eventually(look)

    async def _is_empty(self) -> bool:
        pending = await self.redis.xpending(STREAM, GROUP)
        return bool(await self.redis.xlen(STREAM) == 0 and pending["pending"] == 0)

    async def one_result(self, found: dispatch_pb2.StepGrant) -> pb.ReportResultItem:
        """Make a step ready and return what is reported of it."""
        await self.ready(found)
        await self.engine.until(lambda: self.engine.reports)
        return self.engine.reports[0]
