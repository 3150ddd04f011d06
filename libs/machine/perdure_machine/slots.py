"""Where a queued step belongs: one of 256 slots, whatever the number of shards is today."""

from __future__ import annotations

import uuid
import zlib

SLOTS = 256
"""A row keeps its slot for good; its shard is the slot modulo the lane's shards of the moment."""


def slot_of(run_id: uuid.UUID, step: int) -> int:
    """The slot, 0 to 255, of a step: the same in every process and release."""
    return zlib.crc32(f"{run_id}/{step}".encode()) % SLOTS
