"""Tells the coordinator how tries ended, in batches, and hands on the step an answer carries."""

from __future__ import annotations

import logging
import random

from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_runtime.backoff import Backoff
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import Aborted, PerdureError, Reason, ResourceExhausted
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log, log_failure

from perdure_worker.coordinator import NOT_NOW, Answered, Coordinator
from perdure_worker.hand_out import HandOut, hand_out
from perdure_worker.leases import Held
from perdure_worker.outcome import Ended, refused_report, to_report

MAX_BATCH_BYTES = 3 * 1024 * 1024
"""Most bytes of a batch of reports; a message of gRPC has 4 MiB at most (F091)."""

ITEMS_AT_ONCE = 512
"""Results on their way together, so that a run held elsewhere delays few of the others."""

AGAIN_BACKOFF = Backoff(base=0.05, factor=2.0, cap=2.0)

Answer = Answered[pb.ReportResultResult]

Reporting = Batcher[pb.ReportResultItem, Answer]

_logger = logging.getLogger(__name__)


class Reports(Component):
    """Sends each result until it is answered, or until its lease is long gone."""

    def __init__(self, coordinator: Coordinator, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._batcher = reporting(coordinator)

    async def on_start(self) -> None:
        """Take reports."""
        await self._batcher.start()

    async def on_stop(self) -> None:
        """Send what was taken (F065)."""
        await self._batcher.stop()

    async def report(self, held: Held, outcome: Ended, next_lease_id: str) -> HandOut | None:
        """Report how the try under `held` ended; return the next step if one came back.

        An empty `next_lease_id` takes none. A result that the coordinator refuses for good is
        reported as a failure without it, so that the step does not wait for what never comes.
        """
        item = _item(held, outcome, next_lease_id)
        answer = await self._until_answered(item, held)
        if isinstance(answer, Answered) and isinstance(answer.answer, PerdureError):
            refusal = answer.answer
            log_failure(_logger, "report.refused", refusal)
            failure = refused_report(outcome, refusal.reason, refusal.message)
            answer = await self._until_answered(_item(held, failure, ""), held)
        return _next_of(answer)

    async def _until_answered(self, item: pb.ReportResultItem, held: Held) -> Answer | None:
        tries = 0
        while self._clock.monotonic() < held.long_gone_at:
            tries += 1
            answer = await ask(self._batcher, item)
            if not isinstance(answer, PerdureError):
                return answer
            if tries == 1:
                log_failure(_logger, "report.delayed", answer)
            await self._clock.sleep(AGAIN_BACKOFF.seconds(tries, random.random()))
        log(_logger, "report.given_up", level=logging.ERROR, tries=tries)
        return None


def reporting(coordinator: Coordinator) -> Reporting:
    """Return what gathers reports, to be started."""
    return Batcher(
        coordinator.report,
        coordinator.max_items,
        weigh=pb.ReportResultItem.ByteSize,
        max_weight=MAX_BATCH_BYTES,
        at_once=ITEMS_AT_ONCE // coordinator.max_items,
    )


async def ask(reports: Reporting, item: pb.ReportResultItem) -> Answer | PerdureError:
    """Return a definite answer to one report, else why there is none yet."""
    try:
        answered = await reports.submit(item)
    except NOT_NOW as trouble:
        return trouble
    if isinstance(answered.answer, ResourceExhausted):
        # No report is that large, so it is the coordinator that has no room just now.
        return answered.answer
    if isinstance(answered.answer, PerdureError):
        return answered
    if answered.answer.status == pb.ITEM_STATUS_AGAIN:
        return Aborted("the run is busy", reason=Reason.RETRY)
    return answered


def _item(held: Held, outcome: Ended, next_lease_id: str) -> pb.ReportResultItem:
    item = to_report(held.lease, outcome, next_lease_id)
    item.traceparent = held.traceparent
    item.connection_generation = held.connection_generation
    return item


def _next_of(answered: Answer | None) -> HandOut | None:
    if answered is None:
        return None
    result = answered.answer
    if isinstance(result, PerdureError):
        log_failure(_logger, "report.refused", result)
        return None
    if result.status == pb.ITEM_STATUS_STALE:
        log(_logger, "report.stale", level=logging.WARNING)
    return hand_out(result.next, answered.sent_at) if result.HasField("next") else None
