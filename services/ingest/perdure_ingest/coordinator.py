"""Everything that ingest asks the coordinator to change, gathered into few calls.

Items carry the caller's org. A call without an answer is sent again, and an item that lost a race
is asked again: each has a key or a meaning that makes the repeat harmless.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import grpc
from perdure_contracts.internal.v1 import (
    control_service_pb2,
    control_service_pb2_grpc,
    coordinator_service_pb2,
    coordinator_service_pb2_grpc,
    effects_pb2,
)
from perdure_runtime.backoff import Backoff
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import Aborted, PerdureError, Unavailable
from perdure_runtime.fail_points import FailPoint, declare
from perdure_runtime.lifecycle import Component, Service
from perdure_runtime.rpc.client import RpcClient
from perdure_runtime.rpc.errors import from_status

from perdure_ingest.budget_calls import BudgetCalls
from perdure_ingest.consent_calls import ConsentCalls
from perdure_ingest.key_calls import KeyCalls

START_RUN = declare("ingest.start_run")
SIGNAL = declare("ingest.signal")
CANCEL_RUN = declare("ingest.cancel_run")
COMMAND_RUN = declare("ingest.command_run")
DECIDE_EFFECT = declare("ingest.decide_effect")
PUBLISH_WORKFLOW = declare("ingest.publish_workflow")
REPLAY_DEAD_LETTERS = declare("ingest.replay_dead_letters")
MIGRATE_RUNS = declare("ingest.migrate_runs")
CHANGE_LANES = declare("ingest.change_lanes")
PUT_CONNECTION = declare("ingest.put_connection")
COMMAND_CONNECTION = declare("ingest.command_connection")

MAX_ITEMS = 256
"""Items of one internal call, as its contract says."""

MAX_BATCH_BYTES = 3 * 1024 * 1024
"""A batch stops growing before it is this large, so that it fits into a message."""

CALL_TIMEOUT = 15.0
"""Longest time that one internal call may take with its repeats, seconds."""

ITEM_ATTEMPTS = 5
"""How often an item that lost a race, or found the coordinator busy, is asked."""

ITEM_RETRY = Backoff(base=0.02, factor=2.0, cap=1.0)

_CODES = MappingProxyType({code.value[0]: code for code in grpc.StatusCode})

Item = TypeVar("Item")
Result = TypeVar("Result", bound=Any)
Request = TypeVar("Request")
Response = TypeVar("Response")


class Coordinator(Component):
    """The coordinator's two services behind plain methods; errors are those of the one tree."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._runs = coordinator_service_pb2_grpc.CoordinatorServiceStub(client.batches)
        self._control = control_service_pb2_grpc.ControlServiceStub(client.channel)
        self.consent = ConsentCalls(client)
        self.budgets = BudgetCalls(client)
        self.keys = KeyCalls(client)
        self._starts = Batcher(
            self._send_starts, MAX_ITEMS, weigh=_weight, max_weight=MAX_BATCH_BYTES
        )
        self._signals = Batcher(
            self._send_signals, MAX_ITEMS, weigh=_weight, max_weight=MAX_BATCH_BYTES
        )
        self._cancels = Batcher(self._send_cancels, MAX_ITEMS)
        self._commands = Batcher(self._send_commands, MAX_ITEMS)
        self._decisions = Batcher(
            self._send_decisions, MAX_ITEMS, weigh=_weight, max_weight=MAX_BATCH_BYTES
        )
        super().__init__()

    async def on_start(self) -> None:
        """Take items."""
        for part in self._parts():
            await part.start()

    async def on_stop(self) -> None:
        """Wait for the answers of what was taken, then close the channel."""
        for part in reversed(self._parts()):
            await part.stop()

    def _parts(self) -> Sequence[Service]:
        batchers = (self._starts, self._signals, self._cancels, self._commands, self._decisions)
        return (self._client, *batchers)

    async def start_run(
        self, item: coordinator_service_pb2.StartRunItem
    ) -> coordinator_service_pb2.StartRunResult:
        """Start a run; `item` has a start key. Raises what the coordinator answered for it."""
        return await _submit(self._starts, item)

    async def signal(
        self, item: coordinator_service_pb2.SignalItem
    ) -> coordinator_service_pb2.SignalResult:
        """Send a signal, which has an id. Raises what the coordinator answered for it."""
        return await _submit(self._signals, item)

    async def cancel_run(
        self, item: coordinator_service_pb2.CancelRunItem
    ) -> coordinator_service_pb2.CancelRunResult:
        """Cancel a run. Raises what the coordinator answered for it."""
        return await _submit(self._cancels, item)

    async def command_run(
        self, item: coordinator_service_pb2.CommandRunItem
    ) -> coordinator_service_pb2.CommandRunResult:
        """Do to a run what the item says. Raises what the coordinator answered for it."""
        return await _submit(self._commands, item)

    async def decide_effect(
        self, item: effects_pb2.DecideEffectItem
    ) -> effects_pb2.DecideEffectResult:
        """Decide about an effect. Raises what the coordinator answered for it."""
        return await _submit(self._decisions, item)

    async def publish_workflow(
        self, request: control_service_pb2.PublishWorkflowRequest
    ) -> control_service_pb2.PublishWorkflowResponse:
        """Store a checked document; the same content is stored once."""
        return await self._client.call(
            self._control.PublishWorkflow,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=PUBLISH_WORKFLOW,
        )

    async def replay_dead_letters(
        self, request: control_service_pb2.ReplayDeadLettersRequest
    ) -> control_service_pb2.ReplayDeadLettersResponse:
        """Have dead letters retried; repeating it retries none twice."""
        return await self._client.call(
            self._control.ReplayDeadLetters,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=REPLAY_DEAD_LETTERS,
        )

    async def migrate_runs(
        self, request: control_service_pb2.MigrateRunsRequest
    ) -> control_service_pb2.MigrateRunsResponse:
        """Begin a migration, once for each id, or look at what it would do."""
        return await self._client.call(
            self._control.MigrateRuns,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=MIGRATE_RUNS,
        )

    async def put_lane(
        self, request: control_service_pb2.PutLaneRequest
    ) -> control_service_pb2.PutLaneResponse:
        """Make or change a lane; repeating it changes nothing."""
        return await self._client.call(
            self._control.PutLane, request, timeout=CALL_TIMEOUT, fail_point=CHANGE_LANES
        )

    async def delete_lane(
        self, request: control_service_pb2.DeleteLaneRequest
    ) -> control_service_pb2.DeleteLaneResponse:
        """Remove a lane."""
        return await self._client.call(
            self._control.DeleteLane, request, timeout=CALL_TIMEOUT, fail_point=CHANGE_LANES
        )

    async def put_org_weight(
        self, request: control_service_pb2.PutOrgWeightRequest
    ) -> control_service_pb2.PutOrgWeightResponse:
        """Set an org's weight; repeating it changes nothing."""
        return await self._client.call(
            self._control.PutOrgWeight, request, timeout=CALL_TIMEOUT, fail_point=CHANGE_LANES
        )

    async def put_connection(
        self, request: control_service_pb2.PutConnectionRequest
    ) -> control_service_pb2.PutConnectionResponse:
        """Store a connection's settings; the same ones are stored once."""
        return await self._client.call(
            self._control.PutConnection, request, timeout=CALL_TIMEOUT, fail_point=PUT_CONNECTION
        )

    async def command_connection(
        self, request: control_service_pb2.CommandConnectionRequest
    ) -> control_service_pb2.CommandConnectionResponse:
        """Do to a connection what is asked; twice is once."""
        return await self._client.call(
            self._control.CommandConnection,
            request,
            timeout=CALL_TIMEOUT,
            fail_point=COMMAND_CONNECTION,
        )

    async def _send_starts(
        self, items: list[coordinator_service_pb2.StartRunItem]
    ) -> Sequence[coordinator_service_pb2.StartRunResult]:
        request = coordinator_service_pb2.StartRunRequest(items=items)
        return (await self._send(self._runs.StartRun, request, START_RUN)).results

    async def _send_signals(
        self, items: list[coordinator_service_pb2.SignalItem]
    ) -> Sequence[coordinator_service_pb2.SignalResult]:
        request = coordinator_service_pb2.SignalRequest(items=items)
        return (await self._send(self._runs.Signal, request, SIGNAL)).results

    async def _send_cancels(
        self, items: list[coordinator_service_pb2.CancelRunItem]
    ) -> Sequence[coordinator_service_pb2.CancelRunResult]:
        request = coordinator_service_pb2.CancelRunRequest(items=items)
        return (await self._send(self._runs.CancelRun, request, CANCEL_RUN)).results

    async def _send_commands(
        self, items: list[coordinator_service_pb2.CommandRunItem]
    ) -> Sequence[coordinator_service_pb2.CommandRunResult]:
        request = coordinator_service_pb2.CommandRunRequest(items=items)
        return (await self._send(self._runs.CommandRun, request, COMMAND_RUN)).results

    async def _send_decisions(
        self, items: list[effects_pb2.DecideEffectItem]
    ) -> Sequence[effects_pb2.DecideEffectResult]:
        request = effects_pb2.DecideEffectRequest(items=items)
        return (await self._send(self._runs.DecideEffect, request, DECIDE_EFFECT)).results

    async def _send(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        fail_point: FailPoint,
    ) -> Response:
        return await self._client.call(method, request, timeout=CALL_TIMEOUT, fail_point=fail_point)


def _weight(
    item: coordinator_service_pb2.StartRunItem
    | coordinator_service_pb2.SignalItem
    | effects_pb2.DecideEffectItem,
) -> int:
    return item.ByteSize()


async def _submit(batcher: Batcher[Item, Result], item: Item) -> Result:
    """Send an item; ask again while its answer is one that the next moment may change."""
    attempt = 0
    while True:
        attempt += 1
        result = await batcher.submit(item)
        refusal = _refusal(result)
        if refusal is None:
            return result
        if attempt == ITEM_ATTEMPTS or not isinstance(refusal, Aborted | Unavailable):
            raise refusal
        await asyncio.sleep(_pause(attempt, refusal))


def _pause(attempt: int, refusal: PerdureError) -> float:
    asked = refusal.retry_after if isinstance(refusal, Unavailable) else None
    return max(ITEM_RETRY.seconds(attempt, random.random()), asked or 0.0)


def _refusal(result: Any) -> PerdureError | None:
    if not result.HasField("error"):
        return None
    code = _CODES.get(result.error.code, grpc.StatusCode.INTERNAL)
    return from_status(result.error, code)
