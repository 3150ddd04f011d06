"""Runs the Python handlers that this worker imported."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from perdure import Handler, HandlerContext
from perdure.connections import Connections
from perdure.effects import Effects
from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant
from perdure_runtime.lifecycle import Component

from perdure_worker.effect_calls import EffectCalls
from perdure_worker.executors.handler_accounts import HandlerAccounts, Outside
from perdure_worker.executors.handler_effects import HandlerEffects
from perdure_worker.executors.handler_threads import HandlerLoop, HandlerThreads, Running
from perdure_worker.executors.invocation import Invocation
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import ErrorClass, Failed, Outcome

STOP_SECONDS = 0.5
"""How long handlers that were cancelled may take to clean up when the worker ends."""

STOPPED = Failed(ErrorClass.RETRYABLE, "STOPPED", "the handler was stopped before its end")


@dataclass(frozen=True, slots=True)
class _Places:
    threads: HandlerThreads
    loop: HandlerLoop


class TaskExecutor(Component):
    """Calls handlers, each kind in its own place; starts and stops those places."""

    keeps_deadline: ClassVar[bool] = False

    def __init__(
        self, handlers: Mapping[str, Handler], effects: EffectCalls, outside: Outside, threads: int
    ) -> None:
        super().__init__()
        self._effects = effects
        self._outside = outside
        self._handlers = handlers
        self._thread_count = threads
        self._places: _Places | None = None

    async def on_start(self) -> None:
        """Begin the threads and the loop of the handlers."""
        self._places = _Places(HandlerThreads(self._thread_count), HandlerLoop())

    async def on_stop(self) -> None:
        """End the threads and the loop; a handler that hangs is left behind."""
        places, self._places = self._places, None
        if places is not None:
            places.threads.stop()
            await places.loop.stop(STOP_SECONDS)

    async def run(self, grant: StepGrant, context: TryContext) -> Outcome:
        """Call the handler that the step names."""
        handler = self._handlers.get(grant.handler)
        if handler is None:
            return self._unknown(grant.handler)
        effects = HandlerEffects(self._effects, grant.lease, context.open_calls)
        accounts = HandlerAccounts(self._outside, grant, context.deadline)
        invocation = Invocation(handler, _context(grant, context, effects, accounts))
        return accounts.told(await self._begin(invocation).wait() or STOPPED)

    def _begin(self, invocation: Invocation) -> Running[Outcome]:
        if self._places is None:
            raise RuntimeError("the executor was not started")
        if invocation.handler.is_async:
            return self._places.loop.begin(invocation.run_async())
        return self._places.threads.begin(invocation.run)

    def _unknown(self, name: str) -> Failed:
        known = ", ".join(sorted(self._handlers)) or "none"
        return Failed(
            ErrorClass.RETRYABLE,
            "HANDLER_UNKNOWN",
            f"this worker has no handler {name!r}; it has: {known}. Start workers that import it "
            "(PERDURE_WORKER_HANDLERS), or correct the name in the definition.",
        )


@cache
def _logger_of(handler: str) -> logging.Logger:
    return logging.getLogger(f"perdure.handler.{handler}")


def _context(
    grant: StepGrant, context: TryContext, effects: HandlerEffects, accounts: HandlerAccounts
) -> HandlerContext:
    lease = grant.lease
    place = (lease.run_id, grant.scope, grant.node)
    return HandlerContext(
        run_id=lease.run_id,
        workflow=grant.workflow,
        workflow_version=grant.workflow_version,
        node=grant.node,
        scope=grant.scope,
        step=lease.step,
        attempt=grant.attempt,
        key_prefix="/".join(part for part in place if part),
        input_bytes=grant.input,
        deadline=context.deadline,
        cancelled=context.cancelled,
        logger=_logger_of(grant.handler),
        traceparent=context.traceparent,
        effects=Effects(effects, context.cancelled),
        connections=Connections(accounts),
    )
