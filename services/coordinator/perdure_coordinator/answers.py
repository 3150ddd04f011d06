"""Batch calls answer what is done in time and say "again" for the rest (protocol p1, step 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
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
    return _unless_all_unavailable(await _in_time(waits, PATIENCE_SECONDS))


async def once_applied(
    known: Sequence[Answered | PerdureError | None],
    submissions: Iterable[Callable[[float], Coroutine[Any, Any, Answered]]],
) -> list[Answered | PerdureError | None]:
    """Do as `in_time`, but let only runs that somebody else holds be late.

    The submissions of what has no `known` answer are made. Each takes how many seconds it may wait
    for a run that is held. Under load a repeat of what only waits its turn would be another event
    to apply, and more load.
    """
    wanted = (
        submit(PATIENCE_SECONDS)
        for answer, submit in zip(known, submissions, strict=True)
        if answer is None
    )
    found = iter(await _in_time(wanted, OWN_PATIENCE_SECONDS))
    return _unless_all_unavailable([next(found) if one is None else one for one in known])


async def _in_time(
    waits: Iterable[Coroutine[Any, Any, Answered]], patience: float
) -> list[Answered | PerdureError | None]:
    tasks = [asyncio.create_task(wait) for wait in waits]
    if not tasks:
        return []
    for task in tasks:
        task.add_done_callback(_forget)
    await asyncio.wait(tasks, timeout=patience)
    return [_answer(task) for task in tasks]


def _unless_all_unavailable(
    answers: list[Answered | PerdureError | None],
) -> list[Answered | PerdureError | None]:
    first = answers[0] if answers else None
    if isinstance(first, Unavailable) and all(isinstance(one, Unavailable) for one in answers):
        raise first
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
