"""First steps that are handed at once to workers that wait for them, without relay and Redis.

It begins after the commit of the start (R2) and is an AcquireLease like any other, asked for on
behalf of the worker: the step's outbox row is there until it is leased (R3, R4). So whatever goes
wrong in between leaves what a start leaves that nobody waited for, and the relay is woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ACQUIRE_STATUS_GRANTED,
    AcquireLeaseItem,
    AcquireLeaseRequest,
    ReleaseLeaseRequest,
)
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse
from perdure_machine.changes import Changes
from perdure_machine.view import StepState
from perdure_runtime import fail_points
from perdure_runtime.errors import PerdureError
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log_failure
from perdure_runtime.metrics import counter

from perdure_coordinator.committers import Committers
from perdure_coordinator.grants import Grants
from perdure_coordinator.handlers.acquire_lease import acquire_lease
from perdure_coordinator.handlers.release_lease import release_lease
from perdure_coordinator.offers import Offer, Offers

HAND_OUT = fail_points.declare("coordinator.hand_out")

TAKEN = counter(
    "coordinator_offers_taken_total",
    "Offers of workers that were taken for a first step, by what came of it.",
    ("outcome",),
)

_logger = logging.getLogger(__name__)


class Handing(Component):
    """Hands out what starts queued; `not_taken` is called when such a step is left to the relay."""

    def __init__(
        self,
        offers: Offers,
        committers: Committers,
        grants: Grants,
        not_taken: Callable[[], None],
    ) -> None:
        super().__init__()
        self._offers = offers
        self._committers = committers
        self._grants = grants
        self._not_taken = not_taken
        self._under_way: set[asyncio.Task[None]] = set()

    async def on_start(self) -> None:
        """Take offers from now on; the rest begins with a start."""
        self._offers.open()

    async def drain(self) -> None:
        """Let go who waits."""
        self._offers.close()

    async def on_stop(self) -> None:
        """Finish what was begun."""
        self._offers.close()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def begin(self, starts: Sequence[Changes]) -> list[Changes]:
        """Hand out the steps that workers wait for; return the starts whose steps are not.

        Called after the commit of the starts.
        """
        return [one for one in starts if not self._is_begun(one)]

    def _is_begun(self, start: Changes) -> bool:
        if len(start.enqueue) != 1 or start.connected:
            return False
        (step,) = start.enqueue
        offer = self._offers.take(f"{step.lane}:{step.owner}")
        if offer is None:
            return False
        task = asyncio.create_task(self._hand_out(start, step, offer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def _hand_out(self, start: Changes, step: StepState, offer: Offer) -> None:
        waited_ms = int(offer.waited * 1000)
        grant = await self._leased(start, step, offer)
        if grant is None:
            # Whether the lease id was used may be unknown: this offer ends, the next has another.
            self._not_taken()
            offer.give(AwaitStepResponse())
            TAKEN.labels("not_leased").inc()
        elif offer.give(AwaitStepResponse(grant=grant, waited_ms=waited_ms)):
            TAKEN.labels("granted").inc()
        else:
            TAKEN.labels("gone").inc()
            await self._take_back(grant)

    async def _leased(self, start: Changes, step: StepState, offer: Offer) -> StepGrant | None:
        run = start.run.run
        item = AcquireLeaseItem(
            org=run.org, run_id=str(run.run_id), step=step.step, lease_id=str(offer.lease_id)
        )
        request = AcquireLeaseRequest(worker=offer.worker, items=[item])
        try:
            async with HAND_OUT.around():
                answer = await acquire_lease(self._committers, self._grants, request)
        except PerdureError as error:
            log_failure(_logger, "step.not_handed_out", error, run=run.run_id)
            return None
        (result,) = answer.results
        return result.grant if result.status == ACQUIRE_STATUS_GRANTED else None

    async def _take_back(self, grant: StepGrant) -> None:
        """Release the step of a worker that does not wait any more, so that others can take it."""
        try:
            await release_lease(self._committers, ReleaseLeaseRequest(leases=[grant.lease]))
        except PerdureError as error:
            log_failure(_logger, "step.not_taken_back", error, run=grant.lease.run_id)
