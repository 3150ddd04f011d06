"""How `ctx.effect` reaches the record of effects: what a worker, or a test, provides."""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class BeginStatus(StrEnum):
    """How the wish to make a call was answered."""

    BEGUN = "begun"  # it is in flight: make the call
    SETTLED = "settled"  # it was performed before
    LOOK_UP = "look_up"  # nobody knows: look it up
    DROPPED = "dropped"  # the step is no longer this handler's
    CANCELLED = "cancelled"  # the run stops: make no call
    REFUSED = "refused"  # it may never be made so


class SettleStatus(StrEnum):
    """What an effect is, once its outcome was told."""

    PERFORMED = "performed"
    NOT_PERFORMED = "not_performed"
    UNKNOWN = "unknown"  # and the step is still this handler's
    DROPPED = "dropped"  # the step is no longer this handler's


class EffectOutcome(StrEnum):
    """What is known of a call."""

    PERFORMED = "performed"
    NOT_PERFORMED = "not_performed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """The wish to make a call.

    `token` is the call's own; `seconds` the longest it may take; `digest` that of what is asked,
    empty if it is not compared; `keep` for how many seconds the provider keeps the key, None if
    that is not said.
    """

    name: str
    kind: str
    token: str
    seconds: float
    digest: bytes
    keep: float | None
    can_look_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAnswer:
    """The answer to a wish.

    `result` is JSON, None where it is not known; a call must be over by `expires_at` on
    `time.monotonic()`; `code` and `message` say why it was refused.
    """

    status: BeginStatus
    key: str = ""
    result: bytes | None = None
    expires_at: float = math.inf
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class SettleAnswer:
    """What the effect is; its result as JSON where it was performed and that is known; and why
    what was told was not taken.
    """

    status: SettleStatus
    result: bytes | None = None
    message: str = ""


class EffectDoor(Protocol):
    """The record of the effects of one try. Calls return at once, from any thread."""

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        """Ask to make a call."""

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        """Tell what became of a call; it is told also if nobody waits for the answer."""
