"""Asks to make outside calls and tells what became of them, in batches, until it is answered.

Whatever was told is told to its end: it counts also when the step's lease is lost and nobody in
this process waits for the answer (protocol p4).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import grpc
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_contracts.internal.v1.effects_pb2 import (
    BeginEffectItem,
    BeginEffectResult,
    SettleEffectItem,
    SettleEffectResult,
)
from perdure_runtime.backoff import Backoff
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import PerdureError, ResourceExhausted
from perdure_runtime.lifecycle import Component
from perdure_runtime.logs import log, log_failure
from perdure_runtime.rpc.errors import from_status

from perdure_worker.coordinator import MAX_ITEMS, NOT_NOW, Answered, Coordinator

GIVE_UP_SECONDS = 120.0
"""How long an answer is waited for; by then the lease of the step, or of the call, is long over."""

STOP_SECONDS = 1.0
"""How long what was told may take when the worker ends."""

MAX_BATCH_BYTES = 3 * 1024 * 1024
AGAIN_BACKOFF = Backoff(base=0.05, factor=2.0, cap=2.0)

T = TypeVar("T")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_CODES = {code.value[0]: code for code in grpc.StatusCode}

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asking(Generic[ItemT, ResultT]):
    """One of the two calls; `is_undecided` tells an answer after which to ask once more."""

    batcher: Batcher[ItemT, Answered[ResultT]]
    is_undecided: Callable[[ResultT], bool]
    clock: Clock

    async def until_answered(
        self, item: ItemT, seconds: float = GIVE_UP_SECONDS
    ) -> Answered[ResultT] | None:
        """Send the item until there is an answer to it; None if there was none in time."""
        until, tries = self.clock.monotonic() + seconds, 0
        while self.clock.monotonic() < until:
            tries += 1
            answered = await self._ask(item, is_first=tries == 1)
            if answered is not None:
                return answered
            await self.clock.sleep(AGAIN_BACKOFF.seconds(tries, random.random()))
        log(_logger, "effect.given_up", level=logging.ERROR, tries=tries)
        return None

    async def _ask(self, item: ItemT, *, is_first: bool) -> Answered[ResultT] | None:
        try:
            answered = await self.batcher.submit(item)
        except NOT_NOW as trouble:
            if is_first:
                log_failure(_logger, "effect.delayed", trouble)
            return None
        answer = answered.answer
        if isinstance(answer, PerdureError):
            return None if isinstance(answer, ResourceExhausted) else answered
        return None if self.is_undecided(answer) else answered


class EffectCalls(Component):
    """The worker's side of BeginEffect and SettleEffect."""

    def __init__(self, coordinator: Coordinator, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._begins: _Asking[BeginEffectItem, BeginEffectResult] = _Asking(
            Batcher(coordinator.begin_effect, MAX_ITEMS),
            lambda result: result.status == pb.BEGIN_EFFECT_STATUS_AGAIN,
            clock,
        )
        self._settles: _Asking[SettleEffectItem, SettleEffectResult] = _Asking(
            Batcher(
                coordinator.settle_effect,
                MAX_ITEMS,
                weigh=SettleEffectItem.ByteSize,
                max_weight=MAX_BATCH_BYTES,
            ),
            lambda result: result.status == pb.SETTLE_EFFECT_STATUS_AGAIN,
            clock,
        )

    async def on_start(self) -> None:
        """Take wishes and outcomes."""
        await self._begins.batcher.start()
        await self._settles.batcher.start()

    async def on_stop(self) -> None:
        """Tell what there is to tell, for a moment."""
        until = self._clock.monotonic() + STOP_SECONDS
        # An answer that comes now can be one more thing to tell.
        while self._tasks and (left := until - self._clock.monotonic()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        for task in self._tasks:
            task.cancel()
        await self._begins.batcher.stop()
        await self._settles.batcher.stop()

    async def begin(self, item: BeginEffectItem) -> Answered[BeginEffectResult] | None:
        """Ask to make a call, again until it is answered; None if it never was.

        Whoever is cancelled while waiting makes no call; if it was begun, that is told.
        """
        asking = self._spawn(self._begins.until_answered(item))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._spawn(self._withdraw(item, asking))
            raise

    async def settle(self, item: SettleEffectItem) -> Answered[SettleEffectResult] | None:
        """Tell what became of a call, again until it is answered; None if it never was."""
        return await asyncio.shield(self._spawn(self._settles.until_answered(item)))

    async def begin_within(
        self, item: BeginEffectItem, seconds: float
    ) -> Answered[BeginEffectResult] | None:
        """Ask for somebody who may ask elsewhere under the same token: nothing is taken back."""
        return await asyncio.shield(self._spawn(self._begins.until_answered(item, seconds)))

    async def settle_within(
        self, item: SettleEffectItem, seconds: float
    ) -> Answered[SettleEffectResult] | None:
        """Tell for so long what became of a call; who tells it may tell it again."""
        return await asyncio.shield(self._spawn(self._settles.until_answered(item, seconds)))

    def tell(self, item: SettleEffectItem) -> None:
        """Tell what became of a call to whose teller no answer matters any more."""
        self._spawn(self._settles.until_answered(item))

    def run(self, work: Coroutine[Any, Any, T], told: Future[T]) -> None:
        """Have `work` done, which asks or tells, also while the worker ends; `told` has its end."""
        self._spawn(work).add_done_callback(partial(_pass_on, told))

    async def _withdraw(
        self, item: BeginEffectItem, asking: asyncio.Task[Answered[BeginEffectResult] | None]
    ) -> None:
        answered = await asking
        if answered is None or isinstance(answered.answer, PerdureError):
            return
        if answered.answer.status == pb.BEGIN_EFFECT_STATUS_BEGUN:
            outcome = dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
        elif answered.answer.status == pb.BEGIN_EFFECT_STATUS_LOOK_UP:
            outcome = dispatch_pb2.EFFECT_OUTCOME_UNKNOWN
        else:
            return
        await self.settle(
            SettleEffectItem(
                org=item.lease.org,
                run_id=item.lease.run_id,
                key=answered.answer.key,
                token=item.token,
                outcome=outcome,
                note="the worker ended before the call",
            )
        )

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pass_on(told: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        told.cancel()
    elif (error := task.exception()) is not None:
        told.set_exception(error)
    else:
        told.set_result(task.result())


def why_refused(result: pb.BeginEffectResult) -> tuple[str, str]:
    """Return the code and the text of a refusal, empty if there is none."""
    if not result.HasField("error"):
        return "", ""
    error = refusal_of(result)
    return error.reason, error.message


def refusal_of(result: pb.BeginEffectResult) -> PerdureError:
    """Return the error that a refusal carries."""
    return from_status(result.error, _CODES.get(result.error.code, grpc.StatusCode.UNKNOWN))
