"""Sends signals: to a run or a callback in one event, by a key in two steps (protocol p6)."""

from __future__ import annotations

import logging
from uuid import UUID

from perdure_machine.decide.callbacks import answer_to, invalid
from perdure_machine.events import AnswerCallback, DeliverSignals, Emitted, SendSignal
from perdure_machine.mailbox import SignalState
from perdure_machine.replies import Closed, Emission, Reply, Signalled
from perdure_runtime.batching import Batcher
from perdure_runtime.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
)
from perdure_runtime.logs import log
from perdure_store.signals import Kept, KeyedSignal

from perdure_coordinator.committers import Committers

_logger = logging.getLogger(__name__)

Keeping = Batcher[KeyedSignal, Kept | PerdureError]
"""Stores signals by key; their transactions hold no run and share no batch with events of runs."""


class Signals:
    """Where everything that sends a signal sends it."""

    def __init__(self, committers: Committers, keeping: Keeping) -> None:
        self._committers = committers
        self._keeping = keeping

    async def send(self, org: str, signal: SignalState, run_id: UUID | None) -> Kept:
        """Send a signal to a run, or by its key.

        Raises its refusal: NotFound, FailedPrecondition for a run that ended, ResourceExhausted;
        and Unavailable or Aborted when it may be sent again.
        """
        if run_id is None:
            return await self._send_by_key(org, signal)
        return await self._to_run(org, run_id, SendSignal(signal))

    async def answer(self, org: str, token: str, signal: SignalState) -> Kept:
        """Answer a callback.

        Raises NotFound for what no run of the org made, FailedPrecondition where the wait has its
        answer or the run ended; and Unavailable or Aborted when it may be sent again.
        """
        answer = answer_to(token, signal)
        try:
            return await self._to_run(org, answer.callback.run_id, answer)
        except NotFound:
            raise invalid() from None

    async def _to_run(self, org: str, run_id: UUID, event: SendSignal | AnswerCallback) -> Kept:
        reply = await self._committers.submit(run_id, org, event)
        if isinstance(reply, Closed):
            raise FailedPrecondition(
                f"the run is {reply.status} already",
                reason=Reason.RUN_CLOSED,
                metadata={"status": reply.status, "run_id": str(run_id)},
            )
        assert isinstance(reply, Signalled)
        return Kept(reply.new, run_id)

    async def emit(self, org: str, run_id: UUID, emission: Emission) -> Reply:
        """Send what a run emits, then tell it so; sent twice it arrives once.

        Raises what hinders it for now.
        """
        refusal = ""
        try:
            await self.send(org, emission.signal, emission.target)
        except (NotFound, FailedPrecondition, InvalidArgument) as refused:
            refusal = refused.message
        return await self._committers.submit(run_id, org, Emitted(emission.timer_id, refusal))

    async def _send_by_key(self, org: str, signal: SignalState) -> Kept:
        kept = await self._keeping.submit(KeyedSignal(org, signal))
        if isinstance(kept, PerdureError):
            raise kept
        if kept.run_id is not None:
            await self._deliver(org, kept.run_id, signal.name)
        return kept

    async def _deliver(self, org: str, run_id: UUID, name: str) -> None:
        """Tell the run; if that fails the signal is stored all the same, and the sweep tells it."""
        try:
            await self._committers.submit(run_id, org, DeliverSignals(name))
        except PerdureError as error:
            log(
                _logger,
                "signal.not_delivered",
                level=logging.WARNING,
                org=org,
                run=str(run_id),
                reason=str(error.reason),
            )
