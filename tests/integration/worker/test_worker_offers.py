"""A worker with nothing to do waits at the coordinator for a step, beside its streams (p2, p3)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import perdure
import pytest
from perdure_runtime import fail_points
from perdure_testkit.fail_once import FailOnce
from perdure_worker import offers

from tests.integration.worker.fake_engine import RUN_ID, Stage, grant

LONG = 600.0


class Gate:
    """Handlers that have begun and wait in their threads until the test lets them go."""

    def __init__(self, steps: int) -> None:
        self.handlers = perdure.Handlers()
        self.begun = asyncio.Semaphore(0)
        self.let_go = threading.Event()
        self._steps = steps
        self._home = asyncio.get_running_loop()
        self.handlers.add("work", self.work)

    def work(self, _: Any, ctx: perdure.HandlerContext) -> str:
        self._home.call_soon_threadsafe(self.begun.release)
        self.let_go.wait()
        return "done"

    async def all_begun(self) -> None:
        for _ in range(self._steps):
            await self.begun.acquire()


@pytest.fixture
def works() -> perdure.Handlers:
    handlers = perdure.Handlers()

    @handlers.handler("work")
    async def work(given: Any, ctx: perdure.HandlerContext) -> Any:
        return given

    return handlers


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Let offers wait for as long as a test takes."""
    monkeypatch.setattr(offers, "WAIT_SECONDS", 9.0)
    monkeypatch.setattr(offers, "STOP_SECONDS", LONG)


async def test_a_step_that_is_waited_for_runs_without_redis(
    stage: Stage, works: perdure.Handlers
) -> None:
    await stage.start(works)
    await stage.engine.hand(grant())
    await stage.engine.until(lambda: stage.engine.reports)

    (report,), offer = stage.engine.reports, stage.engine.offers[0]
    assert (report.lease.run_id, report.output) == (RUN_ID, b'{"n": 1}')
    assert (offer.worker, list(offer.queues)) == ("worker0", ["io:default"])
    assert stage.engine.acquired == []


async def test_the_next_steps_of_its_run_follow_it(stage: Stage, works: perdure.Handlers) -> None:
    stage.engine.nexts = {1: grant(2)}
    await stage.start(works)
    await stage.engine.hand(grant(1))
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)

    assert [report.lease.step for report in stage.engine.reports] == [1, 2]


async def test_p3_every_offer_has_a_lease_id_of_its_own_and_one_waits_at_a_time(
    stage: Stage, works: perdure.Handlers
) -> None:
    await stage.start(works)
    for step in (1, 2, 3):
        await stage.engine.hand(grant(step))
        assert sum(not answer.done() for answer in stage.engine.waiting) == 0
    await stage.engine.until(lambda: len(stage.engine.reports) == 3)

    ids = [offer.lease_id for offer in stage.engine.offers]
    assert len(set(ids)) == len(ids) >= 3


async def test_p3_an_offer_whose_answer_was_lost_is_not_sent_again(
    stage: Stage, works: perdure.Handlers
) -> None:
    with fail_points.arm("worker.await_step", "after", FailOnce()):
        await stage.start(works)
        await stage.engine.hand(grant(1))
        await stage.engine.hand(grant(2))
        await stage.engine.until(lambda: stage.engine.reports)

    assert [report.lease.step for report in stage.engine.reports] == [2]
    ids = [offer.lease_id for offer in stage.engine.offers]
    assert len(set(ids)) == len(ids)


async def test_an_offer_holds_a_slot_so_that_its_step_begins_at_once(
    stage: Stage, long_waits: None
) -> None:
    gate = Gate(2)
    await stage.start(gate.handlers, slots=2)
    await stage.engine.until(lambda: stage.engine.waiting)
    await stage.ready(grant(1))
    await gate.begun.acquire()
    await stage.engine.hand(grant(2))
    await gate.begun.acquire()

    assert len(stage.engine.offers) == 1  # no slot is left for another
    gate.let_go.set()
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)


async def test_the_last_free_slot_is_for_what_the_streams_bring(
    stage: Stage, long_waits: None
) -> None:
    gate = Gate(2)
    await stage.start(gate.handlers, slots=2)
    await stage.engine.hand(grant(1))
    await gate.begun.acquire()
    await stage.ready(grant(2))
    await gate.begun.acquire()

    assert len(stage.engine.offers) == 1
    gate.let_go.set()
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)


@pytest.mark.parametrize("settings", [{"slots": 1}, {"offers": False}])
async def test_a_pool_of_one_slot_and_a_worker_that_is_told_so_make_no_offers(
    stage: Stage, works: perdure.Handlers, settings: dict[str, Any]
) -> None:
    worker = await stage.start(works, **settings)
    await stage.ready(grant(1))
    await stage.engine.until(lambda: stage.engine.reports)
    await stage.ready(grant(2))
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)
    await worker.stop()

    assert stage.engine.offers == []


async def test_an_older_coordinator_is_asked_once_and_the_streams_go_on(
    stage: Stage, works: perdure.Handlers
) -> None:
    stage.engine.is_old = True
    await stage.start(works)
    await stage.engine.until(lambda: stage.engine.offers)
    await stage.ready(grant(1))
    await stage.engine.until(lambda: stage.engine.reports)
    await stage.ready(grant(2))
    await stage.engine.until(lambda: len(stage.engine.reports) == 2)

    assert len(stage.engine.offers) == 1


@pytest.mark.parametrize("converse", [True, False])
async def test_an_older_coordinator_is_asked_again_when_it_may_be_a_newer_one(
    stage: Stage, works: perdure.Handlers, monkeypatch: pytest.MonkeyPatch, converse: bool
) -> None:
    monkeypatch.setattr(offers, "REFUSED_SECONDS", 0.0)
    stage.engine.is_old = True
    await stage.start(works, converse=converse)
    await stage.engine.until(lambda: stage.engine.offers)
    stage.engine.is_old = False
    await stage.engine.hand(grant())
    await stage.engine.until(lambda: stage.engine.reports)


async def test_r7_a_lease_counts_from_when_its_offer_had_waited_and_was_sent(
    stage: Stage, works: perdure.Handlers
) -> None:
    """A second must be left of a lease for its step to begin."""
    await stage.start(works)
    await stage.engine.hand(grant(1, lease_ms=900))
    await stage.engine.until(lambda: stage.engine.released)
    await stage.engine.hand(grant(2, lease_ms=900), waited_ms=60_000)
    await stage.engine.until(lambda: stage.engine.reports)

    assert [lease.step for lease in stage.engine.released] == [1]
    assert [report.lease.step for report in stage.engine.reports] == [2]


async def test_f064_a_step_handed_out_after_the_drain_began_is_released_and_no_offer_follows(
    stage: Stage, works: perdure.Handlers, long_waits: None
) -> None:
    worker = await stage.start(works)
    await stage.engine.until(lambda: stage.engine.waiting)
    draining = asyncio.create_task(worker.drain())
    await asyncio.wait((draining,), timeout=0)
    await stage.engine.hand(grant())
    await draining
    await worker.stop()

    assert [lease.step for lease in stage.engine.released] == [1]
    assert stage.engine.reports == []
    assert len(stage.engine.offers) == 1


async def test_a_coordinator_that_does_not_answer_keeps_no_worker_from_ending(
    stage: Stage, works: perdure.Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "WAIT_SECONDS", 9.0)
    monkeypatch.setattr(offers, "STOP_SECONDS", 0.05)
    worker = await stage.start(works)
    await stage.engine.until(lambda: stage.engine.waiting)
    async with asyncio.timeout(8):
        await worker.stop()
