"""Keeps the leases of running steps alive, all of them in one batched call.

A lease is renewed when a third of it has passed, so two renewals may be lost. Only the coordinator
says that a lease is lost. When it cannot be reached the work goes on past the expiry that this
process counts, because after an outage nothing is taken away for one lease length (protocol p3);
stopping would throw away work that is still wanted and be charged as a loss. A late result is
refused by its fence (F050). Work is given up only when the lease is long gone.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum

from perdure import Cancellation
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.errors import PerdureError
from perdure_runtime.loop import Loop, LoopSettings, Pass
from perdure_runtime.metrics import counter

from perdure_worker.coordinator import Answered, Coordinator
from perdure_worker.hand_out import HandOut

TICK_SECONDS = 0.25
LEAST_RENEWAL_SECONDS = 0.5
RENEWED_SHARE = 1 / 3
MAX_RENEWED = 1000
LONG_GONE_SECONDS = 120.0
"""How long after its expiry a lease counts as lost although nobody said so."""

RENEWALS = counter("worker_renewals_total", "Leases asked to be renewed.", ("outcome",))

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=1.0)


class Stop(StrEnum):
    """Why a try is stopped from outside before its end."""

    LOST = "lost"  # the lease is another's
    RELEASED = "released"  # the worker shuts down and hands the step back


class Held:
    """A lease that this worker holds for a running try, and where the try's trace goes on.

    `stopped` is done when nobody need wait for the try any more: with why it is to stop, or with
    None when its work or its time is over. One future for all three, since most tries are short
    and waiting for several costs more than they do. `open_calls` holds the tokens of a handler's
    outside calls that are open.
    """

    def __init__(self, hand_out: HandOut, cancelled: Cancellation, now: float) -> None:
        self.lease = hand_out.lease
        self.cancelled = cancelled
        self.traceparent = hand_out.grant.traceparent
        self.connection_generation = hand_out.grant.connection.generation
        self.expires_at = hand_out.expires_at
        self.renew_at = _renewal(now, hand_out.expires_at)
        self.stopped: asyncio.Future[Stop | None] = asyncio.get_running_loop().create_future()
        self.open_calls: set[str] = set()

    def stop(self, why: Stop | None) -> None:
        """Tell whoever runs the try to stop it, or without a reason to look whether it is over."""
        if not self.stopped.done():
            self.stopped.set_result(why)

    def go_on(self) -> None:
        """Run on although the lease is lost; a release can still stop it."""
        self.stopped = asyncio.get_running_loop().create_future()

    @property
    def long_gone_at(self) -> float:
        """When nothing is expected of this lease any more."""
        return self.expires_at + LONG_GONE_SECONDS


class Renewals(Loop):
    """Renews what is held until it is dropped, also while the worker drains (F064)."""

    def __init__(self, coordinator: Coordinator, clock: Clock) -> None:
        super().__init__(
            "renewals",
            self.renew_due,
            LoopSettings(interval=TICK_SECONDS, spread=0.0, backoff=_BACKOFF),
            clock=clock,
        )
        self._coordinator = coordinator
        self._time = clock
        self._held: dict[str, Held] = {}

    async def drain(self) -> None:
        """Go on: what runs still needs its lease."""

    async def on_stop(self) -> None:
        """End; nothing is held any more by then."""
        await super().drain()
        await super().on_stop()

    def hold(self, hand_out: HandOut, cancelled: Cancellation) -> Held:
        """Keep the lease of a hand-out alive until `drop`."""
        held = Held(hand_out, cancelled, self._time.monotonic())
        self._held[hand_out.lease.lease_id] = held
        return held

    def drop(self, held: Held) -> None:
        """Renew this lease no more."""
        self._held.pop(held.lease.lease_id, None)

    async def renew_due(self) -> Pass:
        """Renew the leases whose time has come. Raises PerdureError."""
        now = self._time.monotonic()
        for held in [held for held in self._held.values() if held.long_gone_at <= now]:
            self._lose(held)
        due = [held for held in self._held.values() if held.renew_at <= now][:MAX_RENEWED]
        if due:
            answers = await self._coordinator.renew([held.lease for held in due])
            for held, answer in zip(due, answers, strict=True):
                self._apply(held, answer)
        return Pass({"renewed": len(due)}, more=len(due) == MAX_RENEWED)

    def _apply(self, held: Held, answered: Answered[pb.RenewLeaseResult]) -> None:
        result = answered.answer
        if isinstance(result, PerdureError) or result.status == pb.RENEW_STATUS_AGAIN:
            RENEWALS.labels("again").inc()
            held.renew_at = self._time.monotonic() + TICK_SECONDS
        elif result.status == pb.RENEW_STATUS_RENEWED:
            RENEWALS.labels("renewed").inc()
            held.expires_at = answered.sent_at + result.lease_ms / 1000
            held.renew_at = _renewal(answered.sent_at, held.expires_at)
            if result.cancel_requested:
                held.cancelled.set()
        else:
            RENEWALS.labels("lost").inc()
            self._lose(held)

    def _lose(self, held: Held) -> None:
        self.drop(held)
        held.stop(Stop.LOST)


def _renewal(now: float, expires_at: float) -> float:
    return now + max(LEAST_RENEWAL_SECONDS, (expires_at - now) * RENEWED_SHARE)
