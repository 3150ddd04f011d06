"""Runs what was handed out: a step, its report, and the next one that the report's answer carries.

A slot is free again only when nothing of the try runs any more, whatever ended it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from perdure import Cancellation
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.clock import Clock
from perdure_runtime.logs import bound, emit

from perdure_worker.executors.port import Executor
from perdure_worker.executors.unknown import UnknownKind
from perdure_worker.hand_out import HandOut, new_lease_id
from perdure_worker.leases import Held, Renewals, Stop
from perdure_worker.outcome import Completed, Dropped, Failed
from perdure_worker.releases import Releases
from perdure_worker.reports import Reports
from perdure_worker.tallies import Tallies
from perdure_worker.tries import Ending, RunningTry, kind_of, name_of

Executors = Mapping[dispatch_pb2.StepKind.ValueType, Executor]

_UNKNOWN_KIND = UnknownKind()

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepLimits:
    """`chain_steps` and `chain_seconds` bound how long steps of one run follow in a row;
    `lease_margin` seconds must be left of a lease for its step to begin; `max_output` is bytes.
    """

    chain_steps: int
    chain_seconds: float
    lease_margin: float
    max_output: int


@dataclass(slots=True)
class _Chain:
    began: float
    followers: int = 0


class Steps:
    """Runs hand-outs, each in the task of whoever brings it."""

    def __init__(
        self,
        executors: Executors,
        renewals: Renewals,
        reports: Reports,
        releases: Releases,
        limits: StepLimits,
        clock: Clock,
    ) -> None:
        self._executors = executors
        self._renewals = renewals
        self._reports = reports
        self._releases = releases
        self._limits = limits
        self._clock = clock
        self._running: set[Held] = set()
        self._tallies = Tallies()
        self._draining = False

    def drain(self) -> None:
        """Begin no step from now on; what runs goes on."""
        self._draining = True

    def release_all(self) -> None:
        """Stop whatever runs and hand it back at once."""
        self._draining = True
        for held in self._running:
            held.cancelled.set()
            held.stop(Stop.RELEASED)

    async def run_chain(self, first: HandOut) -> None:
        """Run a step and those that are handed out with its report."""
        chain = _Chain(self._clock.monotonic())
        hand_out: HandOut | None = first
        while hand_out is not None:
            lease = hand_out.lease
            with bound(org=lease.org, run=lease.run_id, step=lease.step, fence=lease.fence):
                hand_out = await self._run(hand_out, chain)
            chain.followers += 1

    async def _run(self, hand_out: HandOut, chain: _Chain) -> HandOut | None:
        if not self._may_begin(hand_out):
            await self._releases.release(hand_out.lease)
            return None
        held = self._renewals.hold(hand_out, Cancellation())
        self._running.add(held)
        running = self._begin(hand_out, held)
        try:
            ended = await running.ending()
            self._tallies.note(kind_of(hand_out), name_of(ended), running.seconds)
            _log(hand_out, ended)
            return await self._conclude(held, ended, self._offer(chain, running))
        finally:
            self._running.discard(held)
            self._renewals.drop(held)
            if not running.is_gone:
                await running.gone()

    def _may_begin(self, hand_out: HandOut) -> bool:
        left = hand_out.expires_at - self._clock.monotonic()
        return left > self._limits.lease_margin and not self._draining

    def _begin(self, hand_out: HandOut, held: Held) -> RunningTry:
        executor = self._executors.get(hand_out.grant.kind, _UNKNOWN_KIND)
        return RunningTry(executor, hand_out, held, self._limits.max_output, self._clock)

    def _offer(self, chain: _Chain, running: RunningTry) -> str:
        """Return the lease id for a next step, empty if none is taken."""
        is_full = chain.followers >= self._limits.chain_steps
        is_long = self._clock.monotonic() - chain.began > self._limits.chain_seconds
        if self._draining or is_full or is_long or not running.is_gone:
            return ""
        return new_lease_id()

    async def _conclude(self, held: Held, ended: Ending, offer: str) -> HandOut | None:
        if ended is Stop.LOST or isinstance(ended, Dropped):
            return None
        if ended is Stop.RELEASED:
            await self._releases.release(held.lease)
            return None
        return await self._reports.report(held, ended, offer)


def _log(hand_out: HandOut, ended: Ending) -> None:
    level = logging.WARNING if ended is Stop.LOST else logging.DEBUG
    if isinstance(ended, Completed) and not _logger.isEnabledFor(level):
        return
    fields: dict[str, object] = {"node": hand_out.grant.node, "attempt": hand_out.grant.attempt}
    if isinstance(ended, Failed):
        level = logging.INFO
        fields |= {"code": ended.code, "error": ended.message}
    if isinstance(ended, Dropped):
        level = logging.INFO
        fields |= {"why": ended.why}
    emit(_logger, f"step.{name_of(ended)}", fields, level=level)
