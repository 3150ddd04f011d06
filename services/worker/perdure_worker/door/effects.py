"""Outside calls of tasks: whether they may be made, and what became of them (protocol p4).

A caller that is gone is not taken for one that did not call: under its token it may have been told
to, at another door. So nothing is taken back here; a call of which nothing is told ends with its
lease.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeVar

from perdure_contracts.internal.v1 import effects_pb2 as engine
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.errors import (
    FailedPrecondition,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)
from perdure_runtime.rpc import deadline

from perdure_worker.coordinator import Answered
from perdure_worker.door.handing import duration
from perdure_worker.effect_calls import EffectCalls, refusal_of

AnswerT = TypeVar("AnswerT")

SPARE_SECONDS = 0.5
"""Of a call's time: what is left for telling that there is no answer yet."""

LONGEST_SECONDS = 15.0
"""How long an answer is waited for in a call without a deadline."""

_BEGUN = MappingProxyType(
    {
        engine.BEGIN_EFFECT_STATUS_BEGUN: pb.BEGIN_EFFECT_STATUS_BEGUN,
        engine.BEGIN_EFFECT_STATUS_SETTLED: pb.BEGIN_EFFECT_STATUS_SETTLED,
        engine.BEGIN_EFFECT_STATUS_LOOK_UP: pb.BEGIN_EFFECT_STATUS_LOOK_UP,
        engine.BEGIN_EFFECT_STATUS_SUSPENDED: pb.BEGIN_EFFECT_STATUS_SUSPENDED,
        engine.BEGIN_EFFECT_STATUS_CANCELLED: pb.BEGIN_EFFECT_STATUS_CANCELLED,
    }
)
_SETTLED = MappingProxyType(
    {
        engine.SETTLE_EFFECT_STATUS_PERFORMED: pb.SETTLE_EFFECT_STATUS_PERFORMED,
        engine.SETTLE_EFFECT_STATUS_NOT_PERFORMED: pb.SETTLE_EFFECT_STATUS_NOT_PERFORMED,
        engine.SETTLE_EFFECT_STATUS_UNKNOWN: pb.SETTLE_EFFECT_STATUS_UNKNOWN,
        engine.SETTLE_EFFECT_STATUS_SUSPENDED: pb.SETTLE_EFFECT_STATUS_SUSPENDED,
        engine.SETTLE_EFFECT_STATUS_STALE: pb.SETTLE_EFFECT_STATUS_STALE,
    }
)


class Effects:
    """Begins and settles for the holders of tokens."""

    def __init__(self, calls: EffectCalls) -> None:
        self._calls = calls

    async def begin(self, token: TaskToken, item: engine.BeginEffectItem) -> pb.BeginEffectResponse:
        """Ask to make a call. Raises FailedPrecondition, LEASE_LOST; Unavailable; what it is
        refused with.
        """
        item.lease.CopyFrom(token.lease)
        result = _answer(await self._calls.begin_within(item, _seconds()))
        if result.status == engine.BEGIN_EFFECT_STATUS_REFUSED:
            raise refusal_of(result)
        if result.status not in _BEGUN:
            problem = "the task is another's, or over: no call may be made for it"
            raise FailedPrecondition(problem, reason=Reason.LEASE_LOST)
        return pb.BeginEffectResponse(
            status=_BEGUN[result.status],
            key=result.key,
            calls=result.calls,
            lease=duration(result.lease_ms / 1000) if result.lease_ms else None,
            result=result.result if result.HasField("result") else None,
            why=result.why,
        )

    async def settle(
        self, token: TaskToken, item: engine.SettleEffectItem
    ) -> pb.SettleEffectResponse:
        """Tell what became of a call. Raises NotFound, EFFECT_NOT_FOUND; Unavailable; what it is
        refused with.
        """
        if not item.key.startswith(f"{token.lease.run_id}/"):
            problem = "the key is of no call of the task's run"
            raise NotFound(problem, reason=Reason.EFFECT_NOT_FOUND)
        item.org, item.run_id = token.lease.org, token.lease.run_id
        result = _answer(await self._calls.settle_within(item, _seconds()))
        return pb.SettleEffectResponse(
            status=_SETTLED[result.status],
            result=result.result if result.HasField("result") else None,
        )


def _seconds() -> float:
    left = deadline.remaining()
    return LONGEST_SECONDS if left is None else max(0.0, left - SPARE_SECONDS)


def _answer(answered: Answered[AnswerT] | None) -> AnswerT:
    if answered is None:
        problem = "the coordinator has not answered yet: ask again under the same token"
        raise Unavailable(problem, reason=Reason.PEER_UNAVAILABLE)
    if isinstance(answered.answer, PerdureError):
        raise answered.answer
    return answered.answer
