"""Runs handlers in a user's own tests, without an engine.

    effects = testing.MemoryEffects()
    with pytest.raises(ConnectionError):
        settle(order, testing.context(effects))
    settle(order, testing.context(effects))        # the next try of the step
    assert effects["charge"].calls == 2

Each context is a try of the same step. A call that an earlier try left open counts as one whose
outcome nobody knows, as after the loss of a worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from perdure.cancellation import Cancellation
from perdure.connection_door import Answer
from perdure.connections import Connections
from perdure.effect_door import (
    BeginAnswer,
    BeginStatus,
    EffectOutcome,
    EffectRequest,
    SettleAnswer,
    SettleStatus,
)
from perdure.effect_outcomes import to_result
from perdure.effects import Effects
from perdure.handler_context import HandlerContext
from perdure.payload import to_payload
from perdure.testing_connections import MemoryConnection, MemoryDoor

__all__ = ["Answer", "EffectRecord", "EffectStatus", "MemoryConnection", "MemoryEffects", "context"]

KEY_PREFIX = "test-run/node"

T = TypeVar("T")


class EffectStatus(StrEnum):
    """What is known of an effect."""

    IN_FLIGHT = "in_flight"
    SETTLED = "settled"  # it was performed
    REFUSED = "refused"  # it was not performed, and may be
    OUTCOME_UNKNOWN = "outcome_unknown"  # it is looked up, or repeated under its key
    NEEDS_REVIEW = "needs_review"  # it waits for a person


@dataclass(slots=True)
class EffectRecord:
    """One effect: how often its call was begun, what is known of it, and its result as JSON."""

    kind: str
    digest: bytes
    status: EffectStatus = EffectStatus.REFUSED
    calls: int = 0
    token: str = ""
    result: bytes | None = None
    note: str = ""

    def lose(self) -> None:
        """Nobody knows how its call ended."""
        is_hopeless = self.kind == "none"
        self.status = EffectStatus.NEEDS_REVIEW if is_hopeless else EffectStatus.OUTCOME_UNKNOWN


class MemoryEffects:
    """The effects of one step by name, over all its tries; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, EffectRecord] = {}

    def __getitem__(self, name: str) -> EffectRecord:
        return self._records[name]

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def next_try(self) -> None:
        """Take the step from whoever has it; nobody knows how its open calls ended."""
        with self._lock:
            for record in self._records.values():
                if record.status is EffectStatus.IN_FLIGHT:
                    record.lose()

    def settle(self, name: str, result: object = None) -> None:
        """Decide as a person does in review: the effect was performed and came to `result`."""
        with self._lock:
            record = self._records[name]
            record.status, record.result = EffectStatus.SETTLED, to_result(result)

    def repeat(self, name: str) -> None:
        """Decide as a person does in review: the effect was not performed."""
        with self._lock:
            self._records[name].status = EffectStatus.REFUSED

    def door(self) -> _MemoryDoor:
        """Return how the next try of the step reaches its effects."""
        self.next_try()
        return _MemoryDoor(self)

    def _begin(self, request: EffectRequest) -> BeginAnswer:
        with self._lock:
            made = EffectRecord(request.kind, request.digest)
            record = self._records.setdefault(request.name, made)
            if request.digest and record.digest and request.digest != record.digest:
                return BeginAnswer(
                    status=BeginStatus.REFUSED,
                    code="EFFECT_MISMATCH",
                    message=f"effect {request.name} was begun before with another request",
                )
            return _begin(record, request)

    def _settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes, note: str
    ) -> SettleAnswer:
        with self._lock:
            record = self._records[key.removeprefix(f"{KEY_PREFIX}/")]
            if record.token != token and outcome is not EffectOutcome.PERFORMED:
                return SettleAnswer(SettleStatus.DROPPED)
            return _settle(record, outcome, result, note)


class _MemoryDoor:
    """The effects of one try."""

    def __init__(self, effects: MemoryEffects) -> None:
        self._effects = effects

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        """Answer at once."""
        return _done(self._effects._begin(request))

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        """Answer at once."""
        return _done(self._effects._settle(key, token, outcome, result, note))


def context(
    effects: MemoryEffects | None = None,
    *,
    given: object = None,
    attempt: int = 1,
    timeout: float | None = None,
    connections: Sequence[MemoryConnection] = (),
) -> HandlerContext:
    """Return the context of the next try of a step that has these effects and `connections`.

    The first of the connections is the step's own.
    `given` is the step's input for `input_bytes`; `timeout` the seconds that the try has.
    """
    cancelled = Cancellation()
    door = (effects or MemoryEffects()).door()
    return HandlerContext(
        run_id=KEY_PREFIX.partition("/")[0],
        workflow="test",
        workflow_version=1,
        node="node",
        scope="",
        step=1,
        attempt=attempt,
        key_prefix=KEY_PREFIX,
        input_bytes=to_payload(given),
        deadline=None if timeout is None else time.monotonic() + timeout,
        cancelled=cancelled,
        logger=logging.getLogger("perdure.handler.test"),
        effects=Effects(door, cancelled),
        connections=Connections(MemoryDoor(connections)),
    )


def _begin(record: EffectRecord, request: EffectRequest) -> BeginAnswer:
    key = f"{KEY_PREFIX}/{request.name}"
    if record.status is EffectStatus.SETTLED:
        return BeginAnswer(status=BeginStatus.SETTLED, key=key, result=record.result)
    if record.status is EffectStatus.NEEDS_REVIEW:
        return BeginAnswer(status=BeginStatus.DROPPED, message="it waits for a person")
    if record.status is EffectStatus.IN_FLIGHT:
        return BeginAnswer(status=BeginStatus.DROPPED, message="a call is open")
    record.token = request.token
    if record.status is EffectStatus.OUTCOME_UNKNOWN and record.kind == "reconcile":
        return BeginAnswer(status=BeginStatus.LOOK_UP, key=key)
    record.status, record.calls = EffectStatus.IN_FLIGHT, record.calls + 1
    return BeginAnswer(status=BeginStatus.BEGUN, key=key)


def _settle(record: EffectRecord, outcome: EffectOutcome, result: bytes, note: str) -> SettleAnswer:
    if outcome is EffectOutcome.PERFORMED:
        record.status, record.result = EffectStatus.SETTLED, result
        return SettleAnswer(SettleStatus.PERFORMED, result)
    record.note = note
    if outcome is EffectOutcome.NOT_PERFORMED:
        record.status = EffectStatus.REFUSED
        return SettleAnswer(SettleStatus.NOT_PERFORMED)
    record.lose()
    is_parked = record.status is EffectStatus.NEEDS_REVIEW
    return SettleAnswer(SettleStatus.DROPPED if is_parked else SettleStatus.UNKNOWN)


def _done(answer: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(answer)
    return future
