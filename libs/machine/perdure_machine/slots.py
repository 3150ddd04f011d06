"""Where a queued step belongs: its slot, whatever the number of shards is today, and its job."""

from __future__ import annotations

import uuid
import zlib

SLOTS = 256
"""A row keeps its slot for good; its shard is the slot modulo the lane's shards of the moment."""


def slot_of(run_id: uuid.UUID, step: int) -> int:
    """The slot, 0 to 255, of a step: the same in every process and release."""
    return zlib.crc32(f"{run_id}/{step}".encode()) % SLOTS


def job_of(workflow: str) -> int:
    """A signed 32-bit number that stands for the workflow's name, the same in every process.

    Queued steps of an org take turns by it; two names that share one share a turn.
    """
    return zlib.crc32(workflow.encode()) - (1 << 31)
