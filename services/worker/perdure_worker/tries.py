"""One try of a step: the executor at work, and what can end it before its own end.

It ends in one of four ways: the executor returns; the try's timeout passes; the lease is lost, and
nothing is reported, except of an outside call, whose result settles its effect (protocol p4); or
the worker shuts down and releases the step, or reports a call that must not be repeated blindly.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from dataclasses import replace

from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.clock import Clock
from perdure_runtime.logs import log
from perdure_runtime.tracing import Attribute, Span, is_recorded, span

from perdure_worker.executors.port import Executor, TryContext
from perdure_worker.hand_out import HandOut
from perdure_worker.leases import Held, Stop
from perdure_worker.outcome import (
    Completed,
    Dropped,
    Effect,
    ErrorClass,
    Failed,
    Outcome,
    bounded,
    timed_out,
)

LAST_WAIT_SECONDS = 0.2
"""How long an executor may take to end when the worker itself is told to end at once."""

KINDS = {
    dispatch_pb2.STEP_KIND_TASK: "task",
    dispatch_pb2.STEP_KIND_HTTP: "http",
    dispatch_pb2.STEP_KIND_GRPC: "grpc",
}

Ending = Outcome | Stop

_logger = logging.getLogger(__name__)


class RunningTry:
    """A try that began when this object was made."""

    def __init__(
        self, executor: Executor, hand_out: HandOut, held: Held, max_output: int, clock: Clock
    ) -> None:
        self._executor = executor
        self._hand_out = hand_out
        self._held = held
        self._max_output = max_output
        self._clock = clock
        self.seconds: float | None = None
        """How long the executor took; None until it has returned."""
        self._work = asyncio.get_running_loop().create_task(self._execute())
        self._work.add_done_callback(self._look)

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the try runs any more."""
        return self._work.done()

    async def ending(self) -> Ending:
        """Wait until the try has ended or was told to; what still runs is asked to stop."""
        ended = await self._first_ending()
        if ended is Stop.LOST and self._has_open_call:
            log(_logger, "step.lost", level=logging.WARNING, outside_call="goes on")
            self._held.go_on()
            ended = await self._first_ending()
        is_reported = ended is Stop.RELEASED and self._is_call_reported
        self._ask_to_stop()
        if is_reported:
            return Failed(
                ErrorClass.RETRYABLE,
                "WORKER_STOPPED",
                "the worker was told to end during the call",
                effect=Effect.UNKNOWN,
            )
        return ended

    async def gone(self) -> None:
        """Wait until nothing of the try runs any more."""
        if self._work.done():
            return
        self._ask_to_stop()
        try:
            await asyncio.wait((self._work,))
        except asyncio.CancelledError:
            self._work.cancel()
            await asyncio.wait((self._work,), timeout=LAST_WAIT_SECONDS)
            raise

    @property
    def _is_call_reported(self) -> bool:
        """Whether the step's report must tell of a call that is cut, so that it is not released."""
        is_begun = self._hand_out.has_effect and bool(self._held.open_calls)
        return is_begun or not self._hand_out.may_be_repeated

    @property
    def _has_open_call(self) -> bool:
        return self._hand_out.is_in_flight or bool(self._held.open_calls)

    def _ask_to_stop(self) -> None:
        if not self._work.done():
            self._held.cancelled.set()
            self._work.cancel()

    async def _execute(self) -> Outcome:
        held, began = self._held, self._clock.monotonic()
        with process_span(self._hand_out) as process:
            held.traceparent = process.traceparent or held.traceparent
            context = TryContext(
                self._hand_out.deadline, held.cancelled, held.open_calls, held.traceparent
            )
            outcome = await self._executor.run(self._hand_out.grant, context)
            process.set("perdure.outcome", name_of(outcome))
        self.seconds = self._clock.monotonic() - began
        return outcome

    async def _first_ending(self) -> Ending:
        alarm = self._alarm()
        try:
            why = await self._held.stopped
        finally:
            if alarm is not None:
                alarm.cancel()
        if self._work.done():
            return self._outcome()
        if why is not None:
            return why
        return timed_out(self._hand_out.grant.timeout_ms / 1000, self._effect_if_cut())

    def _alarm(self) -> asyncio.TimerHandle | None:
        if self._hand_out.deadline is None or self._executor.keeps_deadline:
            return None
        seconds = max(0.0, self._hand_out.deadline - self._clock.monotonic())
        return asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self, _: object = None) -> None:
        """Have `ending` look: the work has ended, or its time is over."""
        self._held.stop(None)

    def _outcome(self) -> Outcome:
        fault = None if self._work.cancelled() else self._work.exception()
        if self._work.cancelled() or fault is not None:
            return self._executor_fault(fault)
        outcome = bounded(self._work.result(), self._max_output)
        if isinstance(outcome, Dropped) or self._hand_out.has_effect:
            return outcome
        if outcome.effect is Effect.NONE:
            return outcome
        return replace(outcome, effect=Effect.NONE)

    def _executor_fault(self, fault: BaseException | None) -> Failed:
        log(_logger, "executor.failed", level=logging.ERROR, exc_info=fault)
        message = f"the executor failed: {type(fault).__name__}: {fault}"
        effect = self._effect_if_cut()
        return Failed(ErrorClass.RETRYABLE, "EXECUTOR_FAULT", message, effect=effect)

    def _effect_if_cut(self) -> Effect:
        return Effect.UNKNOWN if self._hand_out.has_effect else Effect.NONE


def process_span(hand_out: HandOut) -> AbstractContextManager[Span]:
    """Open the span of a try, in the trace that the grant goes on."""
    grant = hand_out.grant
    attributes = _attributes(grant) if is_recorded(grant.traceparent) else None
    return span("process", parent=grant.traceparent, kind="consumer", attributes=attributes)


def _attributes(grant: dispatch_pb2.StepGrant) -> dict[str, Attribute]:
    lease = grant.lease
    return {
        "perdure.org": lease.org,
        "perdure.run.id": lease.run_id,
        "perdure.step": lease.step,
        "perdure.fence": lease.fence,
        "perdure.node": grant.node,
        "perdure.workflow": grant.workflow,
        "perdure.queue": grant.queue,
        "perdure.attempt": grant.attempt,
    }


def kind_of(hand_out: HandOut) -> str:
    """Return the name of a step's kind, for metrics."""
    return KINDS.get(hand_out.grant.kind, "unknown")


def name_of(ended: Ending) -> str:
    """Return how a try ended in a word, for metrics and spans."""
    match ended:
        case Completed():
            return "completed"
        case Failed(code="TIMEOUT"):
            return "timed_out"
        case Failed():
            return "failed"
        case Dropped():
            return "dropped"
        case Stop():
            return str(ended)
