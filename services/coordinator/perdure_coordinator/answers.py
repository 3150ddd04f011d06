"""Batch calls answer what is done in time and say "again" for the rest (protocol p1, step 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

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


OWN_PATIENCE_SECONDS = 2.0
"""How long a batch of the hot path waits for this process itself."""

Answered = TypeVar("Answered")


async def in_time(
    waits: Iterable[Coroutine[Any, Any, Answered]],
) -> list[Answered | PerdureError | None]:
    """Return each item's reply, or the error that hinders it; None for one that is late.

    Items that are late go on and change what they change: their repeat finds it done (R5).
    Raises Unavailable when that hinders every item, so that the sender waits as it asks (F048).
    """
    return await _in_time(waits, PATIENCE_SECONDS)


async def once_applied(
    submissions: Iterable[Callable[[float], Coroutine[Any, Any, Answered]]],
) -> list[Answered | PerdureError | None]:
    """Do as `in_time`, but let only runs that somebody else holds be late.

    Each submission takes how many seconds it may wait for such a run. Under load a repeat of what
    only waits its turn would be another event to apply, and more load.
    """
    return await _in_time(
        (submit(PATIENCE_SECONDS) for submit in submissions), OWN_PATIENCE_SECONDS
    )


async def _in_time(
    waits: Iterable[Coroutine[Any, Any, Answered]], patience: float
) -> list[Answered | PerdureError | None]:
    tasks = [asyncio.create_task(wait) for wait in waits]
    if not tasks:
        return []
    for task in tasks:
        task.add_done_callback(_forget)
    await asyncio.wait(tasks, timeout=patience)
    answers = [_answer(task) for task in tasks]
    if isinstance(answers[0], Unavailable) and all(isinstance(a, Unavailable) for a in answers):
        raise answers[0]
    return answers


def _answer(task: asyncio.Task[Answered]) -> Answered | PerdureError | None:
    if not task.done():
        return None
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, PerdureError):
        return error
    raise error


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # of a late item it is told to nobody: that will be sent again


def item_status(answer: Reply | PerdureError | None) -> ItemStatus.ValueType:
    """Return the status of an item whose answer says no more than that.

    Raises the error that refuses the item for good: its sender parts the batch to find it.
    """
    match answer:
        case None | Unavailable() | Aborted():
            return ITEM_STATUS_AGAIN
        case Stale() | NotFound():
            return ITEM_STATUS_STALE
        case PerdureError():
            raise answer
        case _:
            return ITEM_STATUS_APPLIED


def found_status(answer: Reply | PerdureError | None) -> ItemStatus.ValueType:
    """Return the status of what timer or sweeper found; it finds again what is refused.

    One that can never be applied must not stand in the way of the others.
    """
    if isinstance(answer, PerdureError) and not isinstance(answer, NotFound):
        return ITEM_STATUS_AGAIN
    return item_status(answer)
