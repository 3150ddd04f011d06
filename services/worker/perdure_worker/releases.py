"""Hands steps back that this worker will not end, so that another can take them at once."""

from __future__ import annotations

import logging
import random

from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime.backoff import Backoff
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log, log_failure

from perdure_worker.coordinator import MAX_ITEMS, NOT_NOW, Answered, Coordinator

MAX_TRIES = 5
AGAIN_BACKOFF = Backoff(base=0.05, factor=2.0, cap=0.5)

Answer = Answered[pb.ItemStatus.ValueType]

_logger = logging.getLogger(__name__)


class Releases(Component):
    """Releases leases in batches."""

    def __init__(self, coordinator: Coordinator, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._batcher: Batcher[StepLease, Answer] = Batcher(coordinator.release, MAX_ITEMS)

    async def on_start(self) -> None:
        """Take releases."""
        await self._batcher.start()

    async def on_stop(self) -> None:
        """Send what was taken."""
        await self._batcher.stop()

    async def release(self, lease: StepLease) -> None:
        """Hand a step back. If that cannot be told, its lease runs out, which is slower."""
        for number in range(1, MAX_TRIES + 1):
            try:
                answered = await self._batcher.submit(lease)
            except NOT_NOW as trouble:
                log_failure(_logger, "release.failed", trouble)
                return
            if isinstance(answered.answer, PerdureError):
                log_failure(_logger, "release.refused", answered.answer)
                return
            if answered.answer != pb.ITEM_STATUS_AGAIN:
                log(_logger, "step.released")
                return
            await self._clock.sleep(AGAIN_BACKOFF.seconds(number, random.random()))
