"""What is due is delivered once, fairly over orgs; what fails stands in nobody's way (p5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_coordinator import answers
from perdure_runtime.election import Leadership
from perdure_runtime.errors import DeadlineExceeded, Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_store.org_reads import reading
from perdure_store.reads.health import OverdueRow, find_overdue, find_parked_on_timers
from perdure_store.timers import PARK_AFTER
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually
from perdure_timer.delivery import LATENESS, OVERDUE, Delivery

Make = Callable[..., Awaitable[Delivery]]

STATUSES = "SELECT status::text, count(*) FROM steps GROUP BY status ORDER BY status"


async def statuses(timers: Any) -> dict[str, int]:
    return {row["status"]: row["count"] for row in await timers.rows.fetch(STATUSES)}


async def nothing_left(timers: Any) -> bool:
    return bool(await timers.left() == 0)


def lateness(internal: str) -> float:
    total = LATENESS.labels(internal)._sum.get()
    return float(total)


async def test_f013_what_fell_due_during_an_outage_is_delivered_after_it_once(
    timers: Any, delivery: Make
) -> None:
    runs = await timers.waiting(3)
    await timers.due(*runs, ago=3600)
    timer = await delivery()

    done = await timer.run_once()
    again = await timer.run_once()

    assert done.counts == {"due": 3, "applied": 3}
    assert again.counts == {"due": 0, "applied": 0}
    lines = await timers.rows.fetch(
        "SELECT run_id, count(*) FROM history WHERE kind = 'wait_ended' GROUP BY run_id"
    )
    assert {row["run_id"]: row["count"] for row in lines} == dict.fromkeys(runs, 1)
    assert await statuses(timers) == {"completed": 3}


@pytest.mark.parametrize("side", ["before", "after"])
async def test_r5_f013_a_pass_whose_call_failed_is_made_good_by_the_next(
    timers: Any, delivery: Make, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    runs = await timers.waiting(3)
    await timers.due(*runs)
    timer = await delivery()
    with monkeypatch.context() as patch, arm("timer.fire_timers", side, Raise()):
        patch.setattr("perdure_timer.delivery.CALL_SECONDS", 0.5)
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await timer.run_once()

    while await timers.left():
        await timer.run_once()

    lines = await timers.rows.fetchval("SELECT count(*) FROM history WHERE kind = 'wait_ended'")
    assert lines == 3
    assert await statuses(timers) == {"completed": 3}


async def test_r7_f016_a_timer_is_answered_early_and_stays(timers: Any, calls: Calls) -> None:
    (run,) = await timers.waiting()
    await timers.due(run, ago=-60)
    timer_id = await timers.rows.fetchval("SELECT timer_id FROM timers")

    (result,) = await calls.fire(hot.TimerRef(timer_id=timer_id, run_id=str(run), org="default"))

    assert result.status == hot.ITEM_STATUS_EARLY
    assert 30_000 < result.remaining_ms <= 60_000
    assert await timers.left() == 1
    assert await statuses(timers) == {"waiting": 1}


async def test_r7_what_is_near_is_not_sent_before_it_is_due(timers: Any, delivery: Make) -> None:
    near, far = await timers.waiting(2)
    await timers.due(far, ago=-3600)
    await timers.due(near, ago=-2)
    due_at = await timers.rows.fetchval("SELECT due_at FROM timers WHERE run_id = $1", near)
    pauses: list[float] = []
    timer = await delivery(horizon=60.0, wake_in=pauses.append)

    passes = [await timer.run_once()]
    while not passes[-1].counts["due"]:
        passes.append(await timer.run_once())

    assert pauses
    assert all(0 < pause <= 2 for pause in pauses)
    assert passes[-1].counts == {"due": 1, "applied": 1}
    assert await timers.left() == 1
    ended = await timers.rows.fetchval("SELECT at FROM history WHERE kind = 'wait_ended'")
    assert ended >= due_at


async def test_f071_an_org_with_thousands_due_delays_nobody_beyond_the_first_pass(
    timers: Any, delivery: Make
) -> None:
    await timers.org("quiet")
    (quiet,) = await timers.waiting(org="quiet")
    (busy,) = await timers.waiting()
    await timers.backlog(busy, 5000)
    await timers.due(quiet)
    timer = await delivery()

    done = await timer.run_once()

    assert done.counts["due"] == 501
    assert done.more
    assert await timers.left(org="quiet") == 0


async def test_places_that_are_unused_go_to_who_has_more(timers: Any, delivery: Make) -> None:
    await timers.org("quiet")
    (quiet,) = await timers.waiting(org="quiet")
    (busy,) = await timers.waiting()
    await timers.backlog(busy, 900)
    await timers.due(quiet)
    timer = await delivery()

    done = await timer.run_once()

    assert done.counts["due"] == 901
    assert not done.more


async def test_f071_more_orgs_than_a_pass_takes_have_their_turn_in_order(
    timers: Any, delivery: Make
) -> None:
    # Capitals sort in the database otherwise than in Python: the cursor must not lose its place.
    names = [f"{letter}{number}" for letter in "aBcDe" for number in range(9)]
    for name in names:
        await timers.org(name)
        (run,) = await timers.waiting(org=name)
        await timers.backlog(run, 60)
    timer = await delivery()

    passes = [await timer.run_once() for _ in range(3)]

    assert [one.counts["due"] for one in passes] == [1000, 1000, 700]
    assert [one.more for one in passes] == [True, True, False]
    assert await timers.left() == len(names)


async def test_p5_what_fails_is_put_off_longer_and_longer(timers: Any, delivery: Make) -> None:
    (run,) = await timers.waiting()
    await timers.break_run(run)
    await timers.due(run)
    timer = await delivery()

    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]:
        began = await timers.now()
        done = await timer.run_once()
        assert done.counts == {"due": 1, "applied": 0}
        next_try = await timers.rows.fetchval("SELECT next_try FROM timers")
        assert began <= next_try - timedelta(seconds=seconds) <= await timers.now()
        await timers.retry_now()

    assert await timers.left() == 1


REFUSE = """
CREATE FUNCTION refuse_the_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind = 'wait_ended' THEN RAISE EXCEPTION 'no room'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_the_end BEFORE INSERT ON history
    FOR EACH ROW EXECUTE FUNCTION refuse_the_end();
"""


async def overdue(database: Database) -> Sequence[OverdueRow]:
    """Return what `doctor` is told of timers that are late by a minute."""
    async with reading(await database.open_pool("ingest"), "default") as reader:
        return await find_overdue(reader, "default", 10, later_than=timedelta(minutes=1))


async def test_p5_a_timer_that_fails_for_ever_parks_its_step_and_a_resume_tries_it_again(
    timers: Any, delivery: Make, calls: Calls, database: Database
) -> None:
    """The database refuses what the delivery writes, and not what parks the step."""
    broken, whole = await timers.waiting(2)
    await timers.rows.execute(REFUSE)
    await timers.due(broken)
    timer = await delivery()
    for _ in range(PARK_AFTER):
        assert await statuses(timers) == {"waiting": 2}
        await timers.retry_now()
        await timer.run_once()

    assert await statuses(timers) == {"parked": 1, "waiting": 1}
    assert await database.without_way_forward() == []
    async with reading(await database.open_pool("ingest"), "default") as reader:
        (found,) = await find_parked_on_timers(reader, "default", 10)
    assert (found.run_id, found.step, found.kind) == (broken, 1, "wait")
    assert "could not be applied" in (found.failure or "")

    await timers.rows.execute("DROP TRIGGER refuse_the_end ON history")
    await calls.command(hot.RUN_COMMAND_RESUME, broken)
    await (await delivery(internal=True)).run_once()
    await timers.due(whole)
    done = await timer.run_once()
    assert done.counts == {"due": 2, "applied": 2}
    assert await statuses(timers) == {"completed": 2}


async def test_p5_an_internal_event_that_fails_for_ever_stays_and_is_seen_with_its_error(
    timers: Any, delivery: Make, calls: Calls, database: Database
) -> None:
    (run,) = await timers.waiting()
    await calls.cancel(run)
    await timers.break_run(run)
    await timers.due(ago=3600)
    timer = await delivery(internal=True)
    for _ in range(PARK_AFTER + 2):
        await timer.run_once()
        await timers.retry_now()

    found = await overdue(database)
    (event,) = [row for row in found if row.kind == "end_steps"]
    assert (event.run_id, event.step, event.tries) == (run, None, PARK_AFTER + 2)
    assert event.failure


async def test_p5_a_timer_that_is_put_off_is_seen_as_overdue(
    timers: Any, delivery: Make, database: Database
) -> None:
    broken, _whole = await timers.waiting(2)
    await timers.break_run(broken)
    await timers.due(broken, ago=3600)
    await timers.rows.execute("UPDATE timers SET tries = 20 WHERE run_id = $1", broken)
    await (await delivery()).run_once()

    found = await overdue(database)

    assert [row.run_id for row in found] == [broken]
    assert found[0].late > timedelta(minutes=59)


async def test_p5_broken_timers_of_an_org_hide_the_next_for_one_pass_only(
    timers: Any, delivery: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure_timer.delivery.TIMERS_A_PASS", 60)
    (broken,) = await timers.waiting()
    (whole,) = await timers.waiting()
    await timers.backlog(broken, 75)
    await timers.break_run(broken)
    await timers.due(whole, ago=1)
    timer = await delivery()

    first, second = await timer.run_once(), await timer.run_once()

    assert first.counts == {"due": 60, "applied": 0}
    assert second.counts == {"due": 16, "applied": 1}


async def test_p5_a_poisonous_timer_hinders_none_beside_it(timers: Any, delivery: Make) -> None:
    runs = await timers.waiting(10)
    await timers.break_run(runs[4])
    await timers.due()
    timer = await delivery()

    done = await timer.run_once()

    assert done.counts == {"due": 10, "applied": 9}
    assert await timers.left() == 1


async def test_p1_a_timer_of_a_run_that_is_held_is_not_put_off(
    timers: Any, delivery: Make, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.2)
    held, *_ = await timers.waiting(3)
    await timers.due()
    timer, holder = await delivery(), await database.connect()

    async with holder.transaction():
        await holder.execute("SELECT FROM runs WHERE run_id = $1 FOR UPDATE", held)
        done = await timer.run_once()
        tries = await timers.rows.fetchval("SELECT tries FROM timers WHERE run_id = $1", held)

    assert done.counts == {"due": 3, "applied": 2}
    assert tries == 0
    assert await eventually(lambda: nothing_left(timers))


async def test_p1_timers_that_only_wait_their_turn_are_not_sent_again(
    timers: Any, delivery: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.0)
    await timers.waiting(20)
    await timers.due()

    done = await (await delivery()).run_once()

    assert done.counts == {"due": 20, "applied": 20}


async def test_p5_a_timer_of_a_missing_run_is_deleted(timers: Any, delivery: Make) -> None:
    await timers.rows.execute(
        "INSERT INTO timers (org, run_id, step, kind, due_at, next_try)"
        " VALUES ('default', $1, 1, 'wait', clock_timestamp(), clock_timestamp())",
        uuid4(),
    )
    timer = await delivery()

    done = await timer.run_once()

    assert done.counts == {"due": 1, "applied": 0}
    assert await timers.left() == 0


async def test_p5_p12_an_event_for_another_orgs_run_changes_nothing_and_is_deleted(
    timers: Any, delivery: Make
) -> None:
    (run,) = await timers.waiting()
    await timers.rows.execute(
        "INSERT INTO timers (org, run_id, kind, internal, due_at, next_try)"
        " VALUES ('other', $1, 'cancel_run', true, clock_timestamp(), clock_timestamp())",
        run,
    )
    timer = await delivery(internal=True)

    done = await timer.run_once()

    assert done.counts == {"due": 1, "applied": 0}
    assert await timers.left() == 1  # the run's own
    assert await statuses(timers) == {"waiting": 1}


async def test_f032_a_timer_of_a_closed_run_does_nothing(
    timers: Any, calls: Calls, delivery: Make
) -> None:
    (run,) = await timers.waiting()
    timer_id = await timers.rows.fetchval("SELECT timer_id FROM timers")
    await calls.cancel(run)
    await timers.due(run)
    timer = await delivery()

    await timer.run_once()
    await (await delivery(internal=True)).run_once()

    assert await timers.left() == 0
    assert await statuses(timers) == {"cancelled": 1}
    (late,) = await calls.fire(hot.TimerRef(timer_id=timer_id, run_id=str(run), org="default"))
    assert late.status == hot.ITEM_STATUS_STALE


async def test_p5_internal_events_do_not_queue_behind_ordinary_timers(
    timers: Any, calls: Calls, delivery: Make
) -> None:
    runs = await timers.waiting(60)
    await timers.due(*runs)
    await calls.cancel(runs[0])
    timer = await delivery(internal=True)

    done = await timer.run_once()

    assert done.counts == {"due": 1, "applied": 1}
    assert await statuses(timers) == {"cancelled": 1, "waiting": 59}


async def test_a_timer_that_does_not_lead_delivers_nothing(
    timers: Any, delivery: Make, leadership: Leadership
) -> None:
    await timers.waiting()
    await timers.due()
    timer = await delivery()
    leadership.trust_until(float("-inf"))

    assert (await timer.run_once()).counts == {}
    assert await timers.left() == 1


async def test_lateness_counts_from_when_a_timer_was_due(timers: Any, delivery: Make) -> None:
    (run,) = await timers.waiting()
    await timers.due(run, ago=3600)
    await timers.rows.execute("UPDATE timers SET tries = 3, next_try = clock_timestamp()")
    timer = await delivery()
    before = lateness("false")

    await timer.run_once()

    assert lateness("false") - before == pytest.approx(3600, abs=60)
    assert OVERDUE.labels("false")._value.get() == pytest.approx(3600, abs=60)
    await timer.run_once()
    assert OVERDUE.labels("false")._value.get() == 0
