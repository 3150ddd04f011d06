"""The two services of the coordinator; each RPC has a file of its own in `handlers`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import grpc
from perdure_contracts.internal.v1 import backlog_pb2 as backlog
from perdure_contracts.internal.v1 import control_service_pb2 as control
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import effects_pb2 as effects
from perdure_contracts.internal.v1.connections_pb2 import (
    OpenConnectionRequest,
    OpenConnectionResponse,
    SweepConnectionsRequest,
    SweepConnectionsResponse,
)
from perdure_contracts.internal.v1.control_service_pb2_grpc import ControlServiceServicer
from perdure_contracts.internal.v1.converse_pb2 import ConverseRequest, ConverseResponse
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import (
    CoordinatorServiceServicer,
)
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepRequest, AwaitStepResponse
from perdure_machine.subjects import SubjectKey
from perdure_runtime.rpc.conversing import Conversing
from perdure_store.apply.catalogue import Catalogue

from perdure_coordinator.children import Starts
from perdure_coordinator.committers import Committers
from perdure_coordinator.credentials import Credentials
from perdure_coordinator.grants import Grants
from perdure_coordinator.handlers.acquire_lease import acquire_lease
from perdure_coordinator.handlers.await_step import await_step
from perdure_coordinator.handlers.begin_effect import begin_effect
from perdure_coordinator.handlers.begin_runs import begin_runs
from perdure_coordinator.handlers.cancel_run import cancel_run
from perdure_coordinator.handlers.command_connection import command_connection
from perdure_coordinator.handlers.command_run import command_run
from perdure_coordinator.handlers.decide_effect import decide_effect
from perdure_coordinator.handlers.delete_lane import delete_lane
from perdure_coordinator.handlers.deliver_signals import deliver_signals
from perdure_coordinator.handlers.expire_leases import expire_leases
from perdure_coordinator.handlers.expire_runs import expire_runs
from perdure_coordinator.handlers.fire_timers import Firing, fire_timers
from perdure_coordinator.handlers.get_lane_backlog import get_lane_backlog
from perdure_coordinator.handlers.list_lanes import list_lanes
from perdure_coordinator.handlers.migrate_runs import migrate_runs
from perdure_coordinator.handlers.open_connection import open_connection
from perdure_coordinator.handlers.publish_workflow import publish_workflow
from perdure_coordinator.handlers.put_connection import put_connection
from perdure_coordinator.handlers.put_lane import change_lane
from perdure_coordinator.handlers.put_org_weight import put_org_weight
from perdure_coordinator.handlers.release_lease import release_lease
from perdure_coordinator.handlers.renew_lease import Renewals, renew_lease
from perdure_coordinator.handlers.replay_dead_letters import replay_dead_letters
from perdure_coordinator.handlers.report_result import report_result
from perdure_coordinator.handlers.settle_effect import settle_effect
from perdure_coordinator.handlers.signal import signal
from perdure_coordinator.handlers.start_run import start_run
from perdure_coordinator.handlers.sweep_connections import sweep_connections
from perdure_coordinator.offers import Offers
from perdure_coordinator.sealing import Keys
from perdure_coordinator.signalling import Signals
from perdure_coordinator.telling import Telling

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Connections:
    """What calls about connections need; `freed` is called when they may have let steps go."""

    spare: asyncpg.Pool
    keys: Keys
    credentials: Credentials
    grants: Grants
    telling: Telling
    freed: Callable[[], None]


class Coordinator(CoordinatorServiceServicer):
    """The hot path."""

    def __init__(
        self,
        committers: Committers,
        starts: Starts,
        signals: Signals,
        renewals: Renewals,
        firing: Firing,
        spare: asyncpg.Pool,
        connections: Connections,
        offers: Offers,
        draining: asyncio.Event,
    ) -> None:
        service = hot.DESCRIPTOR.services_by_name["CoordinatorService"]
        self._conversing = Conversing(self, service, draining)
        self._committers = committers
        self._connections = connections
        self._offers = offers
        self._signals = signals
        self._starts = starts
        self._renewals = renewals
        self._firing = firing
        self._spare = spare

    async def StartRun(
        self, request: hot.StartRunRequest, context: Context
    ) -> hot.StartRunResponse:
        """See `handlers/start_run.py`."""
        return await start_run(self._starts, self._signals, request)

    async def Signal(self, request: hot.SignalRequest, context: Context) -> hot.SignalResponse:
        """See `handlers/signal.py`."""
        return await signal(self._signals, request)

    async def DeliverSignals(
        self, request: hot.DeliverSignalsRequest, context: Context
    ) -> hot.DeliverSignalsResponse:
        """See `handlers/deliver_signals.py`."""
        return await deliver_signals(self._committers, request)

    async def CancelRun(
        self, request: hot.CancelRunRequest, context: Context
    ) -> hot.CancelRunResponse:
        """See `handlers/cancel_run.py`."""
        return await cancel_run(self._committers, request)

    async def CommandRun(
        self, request: hot.CommandRunRequest, context: Context
    ) -> hot.CommandRunResponse:
        """See `handlers/command_run.py`."""
        return await command_run(self._committers, request)

    async def AcquireLease(
        self, request: hot.AcquireLeaseRequest, context: Context
    ) -> hot.AcquireLeaseResponse:
        """See `handlers/acquire_lease.py`."""
        return await acquire_lease(self._committers, self._connections.grants, request)

    async def AwaitStep(self, request: AwaitStepRequest, context: Context) -> AwaitStepResponse:
        """See `handlers/await_step.py`."""
        return await await_step(self._offers, request)

    async def RenewLease(
        self, request: hot.RenewLeaseRequest, context: Context
    ) -> hot.RenewLeaseResponse:
        """See `handlers/renew_lease.py`."""
        return await renew_lease(self._renewals, request)

    async def ReleaseLease(
        self, request: hot.ReleaseLeaseRequest, context: Context
    ) -> hot.ReleaseLeaseResponse:
        """See `handlers/release_lease.py`."""
        return await release_lease(self._committers, request)

    async def ReportResult(
        self, request: hot.ReportResultRequest, context: Context
    ) -> hot.ReportResultResponse:
        """See `handlers/report_result.py`."""
        grants, telling = self._connections.grants, self._connections.telling
        return await report_result(self._committers, grants, telling, request)

    async def BeginEffect(
        self, request: effects.BeginEffectRequest, context: Context
    ) -> effects.BeginEffectResponse:
        """See `handlers/begin_effect.py`."""
        return await begin_effect(self._committers, request)

    async def SettleEffect(
        self, request: effects.SettleEffectRequest, context: Context
    ) -> effects.SettleEffectResponse:
        """See `handlers/settle_effect.py`."""
        return await settle_effect(self._committers, request)

    async def DecideEffect(
        self, request: effects.DecideEffectRequest, context: Context
    ) -> effects.DecideEffectResponse:
        """See `handlers/decide_effect.py`."""
        return await decide_effect(self._committers, request)

    async def FireTimers(
        self, request: hot.FireTimersRequest, context: Context
    ) -> hot.FireTimersResponse:
        """See `handlers/fire_timers.py`."""
        return await fire_timers(self._firing, request)

    async def ExpireLeases(
        self, request: hot.ExpireLeasesRequest, context: Context
    ) -> hot.ExpireLeasesResponse:
        """See `handlers/expire_leases.py`."""
        telling = self._connections.telling
        return await expire_leases(self._committers, self._renewals, telling, request)

    async def BeginRuns(
        self, request: hot.BeginRunsRequest, context: Context
    ) -> hot.BeginRunsResponse:
        """See `handlers/begin_runs.py`."""
        return await begin_runs(self._committers, request)

    async def ExpireRuns(
        self, request: hot.ExpireRunsRequest, context: Context
    ) -> hot.ExpireRunsResponse:
        """See `handlers/expire_runs.py`."""
        return await expire_runs(self._committers, request)

    async def GetLaneBacklog(
        self, request: backlog.GetLaneBacklogRequest, context: Context
    ) -> backlog.GetLaneBacklogResponse:
        """See `handlers/get_lane_backlog.py`."""
        return await get_lane_backlog(self._spare, request)

    async def OpenConnection(
        self, request: OpenConnectionRequest, context: Context
    ) -> OpenConnectionResponse:
        """See `handlers/open_connection.py`."""
        return await open_connection(self._spare, self._connections.credentials, request)

    async def SweepConnections(
        self, request: SweepConnectionsRequest, context: Context
    ) -> SweepConnectionsResponse:
        """See `handlers/sweep_connections.py`."""
        answer = await sweep_connections(self._connections.spare, request)
        self._connections.freed()
        return answer

    def Converse(
        self, requests: AsyncIterator[ConverseRequest], context: Context
    ) -> AsyncIterator[ConverseResponse]:
        """Serve the calls of a stream, each by its method."""
        return self._conversing.serve(requests, context)


class Control(ControlServiceServicer):
    """The catalogue."""

    def __init__(
        self,
        spare: asyncpg.Pool,
        catalogue: Catalogue,
        subjects: SubjectKey,
        connections: Connections,
    ) -> None:
        self._spare = spare
        self._catalogue = catalogue
        self._subjects = subjects
        self._connections = connections

    async def PublishWorkflow(
        self, request: control.PublishWorkflowRequest, context: Context
    ) -> control.PublishWorkflowResponse:
        """See `handlers/publish_workflow.py`."""
        return await publish_workflow(self._spare, self._subjects, request)

    async def ListLanes(
        self, request: control.ListLanesRequest, context: Context
    ) -> control.ListLanesResponse:
        """See `handlers/list_lanes.py`."""
        return await list_lanes(self._spare)

    async def PutLane(
        self, request: control.PutLaneRequest, context: Context
    ) -> control.PutLaneResponse:
        """See `handlers/put_lane.py`."""
        return await change_lane(self._spare, self._catalogue, request)

    async def DeleteLane(
        self, request: control.DeleteLaneRequest, context: Context
    ) -> control.DeleteLaneResponse:
        """See `handlers/delete_lane.py`."""
        return await delete_lane(self._spare, request)

    async def PutOrgWeight(
        self, request: control.PutOrgWeightRequest, context: Context
    ) -> control.PutOrgWeightResponse:
        """See `handlers/put_org_weight.py`."""
        return await put_org_weight(self._spare, request)

    async def ReplayDeadLetters(
        self, request: control.ReplayDeadLettersRequest, context: Context
    ) -> control.ReplayDeadLettersResponse:
        """See `handlers/replay_dead_letters.py`."""
        return await replay_dead_letters(self._spare, request)

    async def MigrateRuns(
        self, request: control.MigrateRunsRequest, context: Context
    ) -> control.MigrateRunsResponse:
        """See `handlers/migrate_runs.py`."""
        return await migrate_runs(self._spare, self._catalogue, request)

    async def PutConnection(
        self, request: control.PutConnectionRequest, context: Context
    ) -> control.PutConnectionResponse:
        """See `handlers/put_connection.py`."""
        answer = await put_connection(self._spare, self._connections.keys, request)
        self._connections.freed()
        return answer

    async def CommandConnection(
        self, request: control.CommandConnectionRequest, context: Context
    ) -> control.CommandConnectionResponse:
        """See `handlers/command_connection.py`."""
        answer = await command_connection(self._spare, request)
        self._connections.freed()
        return answer
