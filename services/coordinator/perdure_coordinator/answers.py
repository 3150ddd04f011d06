"""Batch calls answer what is done in time and say "again" for the rest (protocol p1, step 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    ITEM_STATUS_AGAIN,
    ITEM_STATUS_APPLIED,
    ITEM_STATUS_STALE,
    ItemStatus,
)
from perdure_machine.replies import Reply, Stale
from perdure_runtime.errors import Aborted, NotFound, PerdureError, Unavailable

PATIENCE_SECONDS = 0.2
"""How long the slow items of a batch may hold up the answers to the others."""


async def in_time(
    waits: Iterable[Coroutine[Any, Any, Reply]],
) -> list[Reply | PerdureError | None]:
    """Return each item's reply or refusal; None for one that must be sent again.

    Items that are late go on and change what they change: their repeat finds it done (R5).
    Raises Unavailable when nothing at all could be applied.
    """
    tasks = [asyncio.create_task(wait) for wait in waits]
    if not tasks:
        return []
    await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
    answers = [_answer(task) for task in tasks]
    for task in tasks:
        task.add_done_callback(_forget)
    return answers


def _answer(task: asyncio.Task[Reply]) -> Reply | PerdureError | None:
    if not task.done():
        return None
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, Unavailable | Aborted):
        return None
    if isinstance(error, PerdureError):
        return error
    raise error


def _forget(task: asyncio.Task[Reply]) -> None:
    if not task.cancelled():
        task.exception()  # a late item's failure is told to nobody: it will be sent again


def item_status(answer: Reply | PerdureError | None) -> ItemStatus.ValueType:
    """Return the status of an item whose answer says no more than that."""
    match answer:
        case None:
            return ITEM_STATUS_AGAIN
        case Stale() | NotFound():
            return ITEM_STATUS_STALE
        case PerdureError():
            raise answer
        case _:
            return ITEM_STATUS_APPLIED
