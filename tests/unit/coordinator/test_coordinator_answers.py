"""Batch calls answer what is done in time, each item for itself (p1)."""

from __future__ import annotations

import asyncio

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_coordinator import answers
from perdure_coordinator.answers import found_status, in_time, item_status
from perdure_machine.replies import Applied, Reply, Stale
from perdure_runtime.errors import (
    Aborted,
    Internal,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
)

AGAIN = hot.ITEM_STATUS_AGAIN
STALE = hot.ITEM_STATUS_STALE
AWAY = Unavailable("away", reason=Reason.STORE_UNAVAILABLE)
BUSY = Aborted("busy", reason=Reason.RETRY)
MISSING = NotFound("missing", reason=Reason.RUN_NOT_FOUND)
BROKEN = Internal("broken", reason=Reason.INTERNAL)


async def says(outcome: Reply | Exception) -> Reply:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def test_p1_who_is_late_is_asked_again_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.01)
    release, ended = asyncio.Event(), asyncio.Event()

    async def late() -> Reply:
        await release.wait()
        ended.set()
        return Applied()

    found = await in_time([says(Applied()), late(), says(Stale())])

    assert found == [Applied(), None, Stale()]
    release.set()
    await ended.wait()


async def test_an_items_error_is_its_own() -> None:
    found = await in_time([says(MISSING), says(Applied()), says(AWAY), says(BROKEN)])

    assert found == [MISSING, Applied(), AWAY, BROKEN]


async def test_f048_trouble_that_hinders_every_item_is_the_calls() -> None:
    with pytest.raises(Unavailable):
        await in_time([says(AWAY), says(AWAY)])


async def test_what_is_no_error_of_ours_fails_the_call() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_time([says(Applied()), says(ZeroDivisionError())])


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Applied(), hot.ITEM_STATUS_APPLIED),
        (Stale(), STALE),
        (MISSING, STALE),
        (None, AGAIN),
        (AWAY, AGAIN),
        (BUSY, AGAIN),
    ],
)
def test_the_status_of_an_item(
    answer: Reply | PerdureError | None, status: hot.ItemStatus.ValueType
) -> None:
    assert item_status(answer) == status
    assert found_status(answer) == status


@pytest.mark.parametrize("refusal", [BROKEN, InvalidArgument("no")])
def test_what_is_refused_for_good_is_raised_to_who_parts_the_batch(refusal: PerdureError) -> None:
    with pytest.raises(type(refusal)):
        item_status(refusal)
    assert found_status(refusal) == AGAIN
