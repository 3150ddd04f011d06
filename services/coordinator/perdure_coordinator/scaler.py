"""KEDA's external scaler: workers are scaled on what their own queues hold, waiting and running.

Running steps count, since a queue whose slots are all used and that has nothing waiting is not
idle. It asks PostgreSQL, so it needs no Prometheus and does not end where no worker is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import grpc
from perdure_contracts.internal.keda import external_scaler_pb2 as keda
from perdure_contracts.internal.keda.external_scaler_pb2_grpc import ExternalScalerServicer
from perdure_runtime.errors import FieldViolation, InvalidArgument
from perdure_store import outbox
from perdure_store.pool import acquire

from perdure_coordinator.handlers.get_lane_backlog import MAX_LIMIT, parse_queues

METRIC = "perdure-queued-and-running-steps"
LOOK_SECONDS = 5.0

Context = grpc.aio.ServicerContext[Any, Any]


class Scaler(ExternalScalerServicer):
    """Answers for the queues that the trigger's metadata names."""

    def __init__(self, spare: asyncpg.Pool) -> None:
        self._spare = spare

    async def IsActive(
        self, request: keda.ScaledObjectRef, context: Context
    ) -> keda.IsActiveResponse:
        """Whether there is any work."""
        return await self._activity(request)

    async def StreamIsActive(
        self, request: keda.ScaledObjectRef, context: Context
    ) -> AsyncIterator[keda.IsActiveResponse]:
        """Whether there is any work, looked at every few seconds."""
        while True:
            yield await self._activity(request)
            await asyncio.sleep(LOOK_SECONDS)

    async def GetMetricSpec(
        self, request: keda.ScaledObjectRef, context: Context
    ) -> keda.GetMetricSpecResponse:
        """How many steps one replica should have."""
        spec = keda.MetricSpec(metricName=METRIC, targetSizeFloat=_target(request))
        return keda.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(
        self, request: keda.GetMetricsRequest, context: Context
    ) -> keda.GetMetricsResponse:
        """How many there are."""
        steps = await self._steps(request.scaledObjectRef)
        value = keda.MetricValue(metricName=METRIC, metricValueFloat=steps)
        return keda.GetMetricsResponse(metricValues=[value])

    async def _activity(self, request: keda.ScaledObjectRef) -> keda.IsActiveResponse:
        return keda.IsActiveResponse(result=await self._steps(request) > 0)

    async def _steps(self, request: keda.ScaledObjectRef) -> int:
        queues = parse_queues(request.scalerMetadata["queues"].split(","))
        async with acquire(self._spare) as connection:
            found = await outbox.backlog(connection, queues, MAX_LIMIT)
        return sum(one.waiting + one.running for one in found)


def _target(request: keda.ScaledObjectRef) -> float:
    text = request.scalerMetadata["steps"]
    try:
        steps = float(text)
    except ValueError:
        steps = 0.0
    if not 0 < steps < float("inf"):
        problem = f"must be a number above 0, the steps of one replica, not {text!r}"
        raise InvalidArgument(f"steps {problem}", violations=[FieldViolation("steps", problem)])
    return steps
