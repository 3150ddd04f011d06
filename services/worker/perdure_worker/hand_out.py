"""A step that was handed to this worker, its durations turned into instants of this process."""

from __future__ import annotations

import os
from dataclasses import dataclass

from perdure_contracts.internal.v1.dispatch_pb2 import StepGrant, StepLease

IDS_AT_ONCE = 64
"""Ids whose random bytes are asked for together."""


@dataclass(frozen=True, slots=True)
class HandOut:
    """`expires_at` and `deadline` lie on the monotonic clock and count from when the request that
    was answered with the grant was sent (R7), so this process is never later than the database.
    """

    grant: StepGrant
    expires_at: float
    deadline: float | None

    @property
    def lease(self) -> StepLease:
        """The acquisition."""
        return self.grant.lease

    @property
    def has_effect(self) -> bool:
        """Whether the step has an outside effect, which its report tells of."""
        return self.grant.HasField("effect")

    @property
    def is_in_flight(self) -> bool:
        """Whether that was recorded in flight with the lease."""
        return self.has_effect and not self.grant.effect.begin_first

    @property
    def may_be_repeated(self) -> bool:
        """Whether a call in flight with the lease may be made again when it was cut."""
        return not self.is_in_flight or self.grant.effect.kind == "provider"


def hand_out(grant: StepGrant, sent_at: float) -> HandOut:
    """Return the hand-out of a grant whose request was sent at `sent_at`."""
    timeout = grant.timeout_ms / 1000
    return HandOut(
        grant,
        expires_at=sent_at + grant.lease_ms / 1000,
        deadline=sent_at + timeout if timeout else None,
    )


class _Digits:
    """Random bytes, bought many at a time: to ask for them lets other threads run, every time."""

    def __init__(self) -> None:
        self._left: list[str] = []

    def take(self) -> str:
        """Return 32 hexadecimal digits that nobody was given before; for one thread."""
        if not self._left:
            digits = os.urandom(16 * IDS_AT_ONCE).hex()
            self._left = [digits[at : at + 32] for at in range(0, len(digits), 32)]
        return self._left.pop()


_digits = _Digits()


def new_lease_id() -> str:
    """Return the id of an acquisition to come: a random UUID (version 4).

    Written here because `str(uuid.uuid4())` takes several times as long, once a step.
    """
    digits = _digits.take()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
