"""What this process knows of the keys of handlers, for a short time: the coordinator tells it.

A revoked key works no longer than an answer is kept, and a wrong one is not asked about again in
that time. At most one batch of questions is away at a time, so a flood of wrong keys takes few of
the coordinator's connections.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from perdure_contracts.internal.v1.key_service_pb2 import CheckKeyResponse
from perdure_runtime.access import Permission
from perdure_runtime.api_keys import PresentedKey
from perdure_runtime.batching import Batcher
from perdure_runtime.clock import Clock
from perdure_runtime.errors import Reason, Unauthenticated
from perdure_runtime.gate.authorise import Principal
from perdure_runtime.gate.rates import Rate
from perdure_runtime.lifecycle import Component

from perdure_worker.door.key_calls import KeyCalls

MAX_KNOWN = 10_000
"""Keys that are known at once; the one that was asked about longest ago is forgotten."""

MAX_QUESTIONS = 16
"""Keys that are asked about at once."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a key is refused, of which an error is made for each call."""

    message: str
    reason: Reason
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    """What was answered about a key; good `until` that instant."""

    answer: Principal | _Refusal
    until: float


class KeyRing(Component):
    """Tells who presents a key; what it was told it keeps for `seconds` at most."""

    def __init__(self, calls: KeyCalls, seconds: float, clock: Clock) -> None:
        super().__init__()
        self._calls = calls
        self._seconds = seconds
        self._clock = clock
        self._known: OrderedDict[PresentedKey, _Entry] = OrderedDict()
        self._questions = Batcher[PresentedKey, _Entry](self._ask_all, MAX_QUESTIONS)

    async def on_start(self) -> None:
        """Ask about keys from now on."""
        await self._questions.start()

    async def on_stop(self) -> None:
        """Ask about no more keys."""
        await self._questions.stop()

    async def principal(self, presented: PresentedKey) -> Principal:
        """Return whom the key stands for.

        Raises Unauthenticated: KEY_INVALID, KEY_EXPIRED or KEY_REVOKED; Unavailable where the
        coordinator does not answer.
        """
        entry = self._fresh(presented) or await self._questions.submit(presented)
        if isinstance(entry.answer, _Refusal):
            refusal = entry.answer
            raise Unauthenticated(refusal.message, reason=refusal.reason, metadata=refusal.metadata)
        return entry.answer

    def _fresh(self, presented: PresentedKey) -> _Entry | None:
        entry = self._known.get(presented)
        is_fresh = entry is not None and entry.until > self._clock.monotonic()
        return entry if is_fresh else None

    def _keep(self, presented: PresentedKey, entry: _Entry) -> _Entry:
        self._known[presented] = entry
        self._known.move_to_end(presented)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return entry

    async def _ask_all(self, presented: list[PresentedKey]) -> list[_Entry]:
        keys = list(dict.fromkeys(presented))
        found = dict(zip(keys, await asyncio.gather(*map(self._ask, keys)), strict=True))
        return [found[key] for key in presented]

    async def _ask(self, presented: PresentedKey) -> _Entry:
        # The batch before may have told it.
        return self._fresh(presented) or self._keep(presented, await self._asked(presented))

    async def _asked(self, presented: PresentedKey) -> _Entry:
        asked_at = self._clock.monotonic()
        try:
            answer = await self._calls.check(presented)
        except Unauthenticated as refused:
            refusal = _Refusal(refused.message, refused.reason, refused.metadata)
            return _Entry(refusal, asked_at + self._seconds)
        return _Entry(_principal(answer), asked_at + min(self._seconds, answer.good_for))


def _principal(answer: CheckKeyResponse) -> Principal:
    known = set(Permission)
    return Principal(
        org=answer.org,
        actor=answer.actor,
        permissions=frozenset(Permission(one) for one in answer.permissions if one in known),
        runs_installation=False,
        key=answer.key_id or answer.actor,
        rate=Rate(answer.rate, answer.burst) if answer.rate and answer.burst else None,
    )
