"""What a stream entry says: which step is ready. The payload comes with the lease."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from perdure_runtime.errors import InvalidArgument
from redis.typing import EncodableT, FieldT

MAX_STEP = 2**31 - 1


class BrokenEntry(InvalidArgument):
    """A stream entry that is no hint; whoever reads it drops it, since the outbox has the truth."""


@dataclass(frozen=True, slots=True)
class Hint:
    """One ready step. `traceparent` is the W3C trace context of whoever made it ready.

    `capacity`: it takes capacity, such as a place at a connection.
    """

    org: str
    run_id: uuid.UUID
    step: int
    traceparent: str | None = None
    capacity: bool = False


Fields = Mapping[bytes, bytes]


def encode(hint: Hint) -> dict[FieldT, EncodableT]:
    """The fields of the entry."""
    fields: dict[FieldT, EncodableT] = {
        "org": hint.org,
        "run": str(hint.run_id),
        "step": str(hint.step),
    }
    if hint.traceparent is not None:
        fields["traceparent"] = hint.traceparent
    if hint.capacity:
        fields["capacity"] = "1"
    return fields


def decode(fields: Fields) -> Hint:
    """Read an entry. Unknown fields are ignored, so that a newer release may add some.

    Raises BrokenEntry.
    """
    try:
        org, step = fields[b"org"].decode(), int(fields[b"step"].decode())
        run_id = uuid.UUID(fields[b"run"].decode())
        traceparent = fields[b"traceparent"].decode() if b"traceparent" in fields else None
    except (KeyError, ValueError) as error:
        raise BrokenEntry(f"no hint: {type(error).__name__} {error}") from None
    if not org or not 0 < step <= MAX_STEP:
        raise BrokenEntry(f"no hint: org {org!r}, step {step}")
    return Hint(org, run_id, step, traceparent, b"capacity" in fields)
