"""The public services; each method names its caller and delegates to its handler."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure_contracts.internal.v1.coordinator_service_pb2 import RunCommand
from perdure_contracts.v1 import (
    dead_letter_service_pb2,
    dead_letter_service_pb2_grpc,
    effect_service_pb2,
    effect_service_pb2_grpc,
    lane_service_pb2,
    lane_service_pb2_grpc,
    run_service_pb2,
    run_service_pb2_grpc,
    system_service_pb2,
    system_service_pb2_grpc,
    workflow_service_pb2,
    workflow_service_pb2_grpc,
)
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.cancel_run import cancel_run
from perdure_ingest.handlers.change_lanes import delete_lane, put_lane, put_org_weight
from perdure_ingest.handlers.command_run import Request, command_run
from perdure_ingest.handlers.decide_effect import decide_effect
from perdure_ingest.handlers.diagnose import diagnose
from perdure_ingest.handlers.get_effect import get_effect
from perdure_ingest.handlers.get_migration import get_migration
from perdure_ingest.handlers.get_run import get_run
from perdure_ingest.handlers.get_run_history import get_run_history
from perdure_ingest.handlers.get_workflow import get_workflow
from perdure_ingest.handlers.list_dead_letters import list_dead_letters
from perdure_ingest.handlers.list_effects import list_effects
from perdure_ingest.handlers.list_runs import list_runs
from perdure_ingest.handlers.list_scopes import list_scopes
from perdure_ingest.handlers.list_workflows import list_workflows
from perdure_ingest.handlers.migrate_runs import migrate_runs
from perdure_ingest.handlers.publish_workflow import publish_workflow
from perdure_ingest.handlers.read_lanes import get_lane, list_lanes, list_org_weights
from perdure_ingest.handlers.replay_dead_letters import replay_dead_letters
from perdure_ingest.handlers.signal_run import signal_run
from perdure_ingest.handlers.start_run import start_run
from perdure_ingest.handlers.validate_workflow import validate_workflow
from perdure_ingest.handlers.watch_run import watch_run


class RunServicer(run_service_pb2_grpc.RunServiceServicer):
    """`perdure.v1.RunService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def StartRun(
        self, request: run_service_pb2.StartRunRequest, context: Context
    ) -> run_service_pb2.StartRunResponse:
        """Delegate."""
        return await start_run(self._doors, self._identify(context), request)

    async def GetRun(
        self, request: run_service_pb2.GetRunRequest, context: Context
    ) -> run_service_pb2.GetRunResponse:
        """Delegate."""
        return await get_run(self._doors, self._identify(context), request)

    async def ListScopes(
        self, request: run_service_pb2.ListScopesRequest, context: Context
    ) -> run_service_pb2.ListScopesResponse:
        """Delegate."""
        return await list_scopes(self._doors, self._identify(context), request)

    async def ListRuns(
        self, request: run_service_pb2.ListRunsRequest, context: Context
    ) -> run_service_pb2.ListRunsResponse:
        """Delegate."""
        return await list_runs(self._doors, self._identify(context), request)

    async def GetRunHistory(
        self, request: run_service_pb2.GetRunHistoryRequest, context: Context
    ) -> run_service_pb2.GetRunHistoryResponse:
        """Delegate."""
        return await get_run_history(self._doors, self._identify(context), request)

    def WatchRun(
        self, request: run_service_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[run_service_pb2.WatchRunResponse]:
        """Delegate."""
        return watch_run(self._doors, self._identify(context), request)

    async def SignalRun(
        self, request: run_service_pb2.SignalRunRequest, context: Context
    ) -> run_service_pb2.SignalRunResponse:
        """Delegate."""
        return await signal_run(self._doors, self._identify(context), request)

    async def CancelRun(
        self, request: run_service_pb2.CancelRunRequest, context: Context
    ) -> run_service_pb2.CancelRunResponse:
        """Delegate."""
        return await cancel_run(self._doors, self._identify(context), request)

    async def TerminateRun(
        self, request: run_service_pb2.TerminateRunRequest, context: Context
    ) -> run_service_pb2.TerminateRunResponse:
        """Delegate."""
        changed = await self._command(context, request, RunCommand.RUN_COMMAND_TERMINATE)
        return run_service_pb2.TerminateRunResponse(changed=changed)

    async def PauseRun(
        self, request: run_service_pb2.PauseRunRequest, context: Context
    ) -> run_service_pb2.PauseRunResponse:
        """Delegate."""
        changed = await self._command(context, request, RunCommand.RUN_COMMAND_PAUSE)
        return run_service_pb2.PauseRunResponse(changed=changed)

    async def ResumeRun(
        self, request: run_service_pb2.ResumeRunRequest, context: Context
    ) -> run_service_pb2.ResumeRunResponse:
        """Delegate."""
        changed = await self._command(context, request, RunCommand.RUN_COMMAND_RESUME)
        return run_service_pb2.ResumeRunResponse(changed=changed)

    async def RetryRun(
        self, request: run_service_pb2.RetryRunRequest, context: Context
    ) -> run_service_pb2.RetryRunResponse:
        """Delegate."""
        changed = await self._command(context, request, RunCommand.RUN_COMMAND_RETRY)
        return run_service_pb2.RetryRunResponse(changed=changed)

    async def _command(
        self, context: Context, request: Request, command: RunCommand.ValueType
    ) -> bool:
        return await command_run(self._doors, self._identify(context), request, command)


class WorkflowServicer(workflow_service_pb2_grpc.WorkflowServiceServicer):
    """`perdure.v1.WorkflowService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PublishWorkflow(
        self, request: workflow_service_pb2.PublishWorkflowRequest, context: Context
    ) -> workflow_service_pb2.PublishWorkflowResponse:
        """Delegate."""
        return await publish_workflow(self._doors, self._identify(context), request)

    async def ValidateWorkflow(
        self, request: workflow_service_pb2.ValidateWorkflowRequest, context: Context
    ) -> workflow_service_pb2.ValidateWorkflowResponse:
        """Delegate."""
        return await validate_workflow(self._doors, self._identify(context), request)

    async def GetWorkflow(
        self, request: workflow_service_pb2.GetWorkflowRequest, context: Context
    ) -> workflow_service_pb2.GetWorkflowResponse:
        """Delegate."""
        return await get_workflow(self._doors, self._identify(context), request)

    async def ListWorkflows(
        self, request: workflow_service_pb2.ListWorkflowsRequest, context: Context
    ) -> workflow_service_pb2.ListWorkflowsResponse:
        """Delegate."""
        return await list_workflows(self._doors, self._identify(context), request)

    async def MigrateRuns(
        self, request: workflow_service_pb2.MigrateRunsRequest, context: Context
    ) -> workflow_service_pb2.MigrateRunsResponse:
        """Delegate."""
        return await migrate_runs(self._doors, self._identify(context), request)

    async def GetMigration(
        self, request: workflow_service_pb2.GetMigrationRequest, context: Context
    ) -> workflow_service_pb2.GetMigrationResponse:
        """Delegate."""
        return await get_migration(self._doors, self._identify(context), request)


class DeadLetterServicer(dead_letter_service_pb2_grpc.DeadLetterServiceServicer):
    """`perdure.v1.DeadLetterService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def ListDeadLetters(
        self, request: dead_letter_service_pb2.ListDeadLettersRequest, context: Context
    ) -> dead_letter_service_pb2.ListDeadLettersResponse:
        """Delegate."""
        return await list_dead_letters(self._doors, self._identify(context), request)

    async def ReplayDeadLetters(
        self, request: dead_letter_service_pb2.ReplayDeadLettersRequest, context: Context
    ) -> dead_letter_service_pb2.ReplayDeadLettersResponse:
        """Delegate."""
        return await replay_dead_letters(self._doors, self._identify(context), request)

    async def DiscardDeadLetter(
        self, request: dead_letter_service_pb2.DiscardDeadLetterRequest, context: Context
    ) -> dead_letter_service_pb2.DiscardDeadLetterResponse:
        """Delegate."""
        discard = RunCommand.RUN_COMMAND_DISCARD_DEAD_LETTER
        await command_run(self._doors, self._identify(context), request, discard)
        return dead_letter_service_pb2.DiscardDeadLetterResponse()


class LaneServicer(lane_service_pb2_grpc.LaneServiceServicer):
    """`perdure.v1.LaneService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PutLane(
        self, request: lane_service_pb2.PutLaneRequest, context: Context
    ) -> lane_service_pb2.PutLaneResponse:
        """Delegate."""
        return await put_lane(self._doors, self._identify(context), request)

    async def GetLane(
        self, request: lane_service_pb2.GetLaneRequest, context: Context
    ) -> lane_service_pb2.GetLaneResponse:
        """Delegate."""
        self._identify(context)
        return await get_lane(self._doors, request)

    async def ListLanes(
        self, request: lane_service_pb2.ListLanesRequest, context: Context
    ) -> lane_service_pb2.ListLanesResponse:
        """Delegate."""
        self._identify(context)
        return await list_lanes(self._doors)

    async def DeleteLane(
        self, request: lane_service_pb2.DeleteLaneRequest, context: Context
    ) -> lane_service_pb2.DeleteLaneResponse:
        """Delegate."""
        return await delete_lane(self._doors, self._identify(context), request)

    async def PutOrgWeight(
        self, request: lane_service_pb2.PutOrgWeightRequest, context: Context
    ) -> lane_service_pb2.PutOrgWeightResponse:
        """Delegate."""
        return await put_org_weight(self._doors, self._identify(context), request)

    async def ListOrgWeights(
        self, request: lane_service_pb2.ListOrgWeightsRequest, context: Context
    ) -> lane_service_pb2.ListOrgWeightsResponse:
        """Delegate."""
        self._identify(context)
        return await list_org_weights(self._doors)


class EffectServicer(effect_service_pb2_grpc.EffectServiceServicer):
    """`perdure.v1.EffectService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def ListEffects(
        self, request: effect_service_pb2.ListEffectsRequest, context: Context
    ) -> effect_service_pb2.ListEffectsResponse:
        """Delegate."""
        return await list_effects(self._doors, self._identify(context), request)

    async def GetEffect(
        self, request: effect_service_pb2.GetEffectRequest, context: Context
    ) -> effect_service_pb2.GetEffectResponse:
        """Delegate."""
        return await get_effect(self._doors, self._identify(context), request)

    async def DecideEffect(
        self, request: effect_service_pb2.DecideEffectRequest, context: Context
    ) -> effect_service_pb2.DecideEffectResponse:
        """Delegate."""
        return await decide_effect(self._doors, self._identify(context), request)


class SystemServicer(system_service_pb2_grpc.SystemServiceServicer):
    """`perdure.v1.SystemService`."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def Diagnose(
        self, request: system_service_pb2.DiagnoseRequest, context: Context
    ) -> system_service_pb2.DiagnoseResponse:
        """Delegate."""
        return await diagnose(self._doors, self._identify(context), request)
