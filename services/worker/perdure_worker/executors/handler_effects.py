"""How the effects of a handler reach the coordinator, from whatever thread or loop it runs in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from perdure.effect_door import (
    BeginAnswer,
    BeginStatus,
    EffectOutcome,
    EffectRequest,
    SettleAnswer,
    SettleStatus,
)
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime.errors import PerdureError, clean_text

from perdure_worker.coordinator import Answered
from perdure_worker.effect_calls import EffectCalls, why_refused

MAX_NOTE_CHARACTERS = 1000

T = TypeVar("T")

_BEGUN = {
    pb.BEGIN_EFFECT_STATUS_BEGUN: BeginStatus.BEGUN,
    pb.BEGIN_EFFECT_STATUS_SETTLED: BeginStatus.SETTLED,
    pb.BEGIN_EFFECT_STATUS_LOOK_UP: BeginStatus.LOOK_UP,
    pb.BEGIN_EFFECT_STATUS_CANCELLED: BeginStatus.CANCELLED,
    pb.BEGIN_EFFECT_STATUS_REFUSED: BeginStatus.REFUSED,
}
"""Every other status says that the step is no longer the handler's."""

_SETTLED = {
    pb.SETTLE_EFFECT_STATUS_PERFORMED: SettleStatus.PERFORMED,
    pb.SETTLE_EFFECT_STATUS_NOT_PERFORMED: SettleStatus.NOT_PERFORMED,
    pb.SETTLE_EFFECT_STATUS_UNKNOWN: SettleStatus.UNKNOWN,
}

_OUTCOMES = {
    EffectOutcome.PERFORMED: dispatch_pb2.EFFECT_OUTCOME_PERFORMED,
    EffectOutcome.NOT_PERFORMED: dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED,
    EffectOutcome.UNKNOWN: dispatch_pb2.EFFECT_OUTCOME_UNKNOWN,
}


class HandlerEffects:
    """The door for the effects of one try; made in the worker's loop, called from anywhere.

    `open_calls` is made to hold the tokens of calls that are open.
    """

    def __init__(self, calls: EffectCalls, lease: StepLease, open_calls: set[str]) -> None:
        self._calls = calls
        self._lease = lease
        self._open_calls = open_calls
        self._home = asyncio.get_running_loop()

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        """Ask to make a call."""
        return self._post(self._begin(request))

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        """Tell what became of a call."""
        item = pb.SettleEffectItem(
            org=self._lease.org,
            run_id=self._lease.run_id,
            key=key,
            token=token,
            outcome=_OUTCOMES[outcome],
            result=result,
            note=clean_text(note, limit=MAX_NOTE_CHARACTERS),
        )
        return self._post(self._settle(item))

    def _post(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        told: Future[T] = Future()
        self._home.call_soon_threadsafe(self._calls.run, work, told)
        return told

    async def _begin(self, request: EffectRequest) -> BeginAnswer:
        item = pb.BeginEffectItem(
            lease=self._lease,
            name=request.name,
            kind=request.kind,
            token=request.token,
            call_ms=_milliseconds(request.seconds),
            request_digest=request.digest,
            keep_ms=_milliseconds(request.keep or 0.0),
            can_look_up=request.can_look_up,
        )
        answer = _to_begin_answer(await self._calls.begin(item))
        if answer.status in (BeginStatus.BEGUN, BeginStatus.LOOK_UP):
            self._open_calls.add(request.token)
        return answer

    async def _settle(self, item: pb.SettleEffectItem) -> SettleAnswer:
        try:
            return await self._told(item)
        finally:
            self._open_calls.discard(item.token)

    async def _told(self, item: pb.SettleEffectItem) -> SettleAnswer:
        answered = await self._calls.settle(item)
        if answered is None:
            return SettleAnswer(SettleStatus.DROPPED)
        if not isinstance(answered.answer, PerdureError):
            return _to_settle_answer(answered.answer)
        if item.outcome == dispatch_pb2.EFFECT_OUTCOME_UNKNOWN:
            return SettleAnswer(SettleStatus.DROPPED)
        # What is refused for good is told without what was refused, so that a person sees it.
        refusal = clean_text(f"what was told is refused: {answered.answer.message}")
        told = await self._told(_unknown(item, refusal))
        return replace(told, message=refusal)


def _unknown(item: pb.SettleEffectItem, note: str) -> pb.SettleEffectItem:
    return pb.SettleEffectItem(
        org=item.org,
        run_id=item.run_id,
        key=item.key,
        token=item.token,
        outcome=dispatch_pb2.EFFECT_OUTCOME_UNKNOWN,
        note=note,
    )


def _to_begin_answer(answered: Answered[pb.BeginEffectResult] | None) -> BeginAnswer:
    if answered is None:
        return BeginAnswer(status=BeginStatus.DROPPED, message="the coordinator did not answer")
    result = answered.answer
    if isinstance(result, PerdureError):
        return BeginAnswer(status=BeginStatus.REFUSED, code=result.reason, message=result.message)
    code, message = why_refused(result)
    return BeginAnswer(
        status=_BEGUN.get(result.status, BeginStatus.DROPPED),
        key=result.key,
        result=result.result if result.HasField("result") else None,
        expires_at=answered.sent_at + result.lease_ms / 1000,
        code=code,
        message=message or result.why,
    )


def _to_settle_answer(result: pb.SettleEffectResult) -> SettleAnswer:
    return SettleAnswer(
        _SETTLED.get(result.status, SettleStatus.DROPPED),
        result.result if result.HasField("result") else None,
    )


def _milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 1000)
