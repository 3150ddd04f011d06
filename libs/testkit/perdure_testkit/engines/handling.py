"""Runs handlers made for workers on an engine of the tests; their effects are the machine's own."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import Future
from uuid import UUID

from perdure import Cancellation, Handler, HandlerContext, HandlerError, StepDropped
from perdure.effect_door import (
    BeginAnswer,
    BeginStatus,
    EffectOutcome,
    EffectRequest,
    SettleAnswer,
    SettleStatus,
)
from perdure.effects import Effects
from perdure.payload import to_payload
from perdure_machine import states
from perdure_machine.definition.outside import EffectKind
from perdure_machine.events import BeginEffect, Event, Failed, SettleEffect, Succeeded
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import (
    EffectBegun,
    EffectRefused,
    EffectSettled,
    EffectToLookUp,
    EffectUnknown,
    Granted,
    Reply,
    Stopping,
)
from perdure_machine.view import NodeError
from perdure_runtime.errors import PerdureError

from perdure_testkit.engines.driver import Driver


async def run_handler(
    driver: Driver, granted: Granted, handler: Handler
) -> Succeeded | Failed | None:
    """Run the try of a handler; None if the step goes on without it."""
    context = _context(driver, granted)
    given = json.loads(granted.step.input) if granted.step.input else None
    try:
        if handler.is_async:
            return Succeeded(to_payload(await handler.function(given, context)))
        return Succeeded(to_payload(await asyncio.to_thread(handler.function, given, context)))
    except StepDropped:
        return None
    except HandlerError as error:
        known = NodeError(ErrorClass(error.error_class), error.code, error.message)
        return Failed(known, error.retry_after)
    except Exception as error:  # noqa: BLE001 - a handler may raise anything; its try has failed
        return Failed(NodeError(ErrorClass.RETRYABLE, type(error).__name__, str(error)))


class MachineDoor:
    """The effects of one try, as events of the machine; called from any thread."""

    def __init__(self, driver: Driver, granted: Granted) -> None:
        self._driver = driver
        self._granted = granted
        self._home = asyncio.get_running_loop()

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        """Ask to make a call."""
        return asyncio.run_coroutine_threadsafe(self._begin(request), self._home)

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        """Tell what became of a call."""
        told = states.EffectOutcome(str(outcome))
        event = SettleEffect(key, UUID(token), told, result or b"null", note)
        return asyncio.run_coroutine_threadsafe(self._settle(event), self._home)

    async def _begin(self, request: EffectRequest) -> BeginAnswer:
        step = self._granted.step
        assert step.lease_id is not None
        event = BeginEffect(
            step.step,
            step.fence,
            step.lease_id,
            request.name,
            EffectKind(request.kind),
            UUID(request.token),
            call_for=request.seconds,
            digest=request.digest,
            keep=request.keep,
            can_look_up=request.can_look_up,
        )
        try:
            return _begun(await self._submit(event))
        except PerdureError as refusal:
            return BeginAnswer(
                status=BeginStatus.REFUSED, code=refusal.reason, message=refusal.message
            )

    async def _settle(self, event: SettleEffect) -> SettleAnswer:
        match await self._submit(event):
            case EffectSettled(result=result):
                return SettleAnswer(SettleStatus.PERFORMED, result)
            case EffectRefused():
                return SettleAnswer(SettleStatus.NOT_PERFORMED)
            case EffectUnknown():
                return SettleAnswer(SettleStatus.UNKNOWN)
            case _:
                return SettleAnswer(SettleStatus.DROPPED)

    async def _submit(self, event: Event) -> Reply:
        return await self._driver.submit(self._granted.run.run_id, event)


def _begun(reply: Reply) -> BeginAnswer:
    match reply:
        case EffectBegun(effect=effect):
            return BeginAnswer(status=BeginStatus.BEGUN, key=effect.key)
        case EffectSettled(key=key, result=result):
            return BeginAnswer(status=BeginStatus.SETTLED, key=key, result=result)
        case EffectToLookUp(key=key):
            return BeginAnswer(status=BeginStatus.LOOK_UP, key=key)
        case Stopping():
            return BeginAnswer(status=BeginStatus.CANCELLED)
        case _:
            return BeginAnswer(status=BeginStatus.DROPPED)


def _context(driver: Driver, granted: Granted) -> HandlerContext:
    step, cancelled = granted.step, Cancellation()
    return HandlerContext(
        run_id=str(granted.run.run_id),
        workflow=granted.run.workflow,
        workflow_version=granted.run.workflow_version,
        node=step.node,
        scope=step.scope,
        step=step.step,
        attempt=step.failures + 1,
        key_prefix=step.effect_prefix or "",
        input_bytes=step.input or b"",
        deadline=None,
        cancelled=cancelled,
        logger=logging.getLogger(f"perdure.handler.{granted.handler}"),
        effects=Effects(MachineDoor(driver, granted), cancelled),
    )
