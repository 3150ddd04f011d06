"""R10: each clause of the view finds exactly what it is for, and nothing in a healthy engine."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import asyncpg
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import dispatch_pb2 as dispatch
from perdure_runtime.clock import SystemClock
from perdure_runtime.election import Leadership
from perdure_sweeper import audit
from perdure_sweeper.audit import NO_WAY_FORWARD, Audit
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

Make = Callable[[Calls], Awaitable[UUID]]

WAIT = "name: waits\nnodes: {a: {wait: 1h}}"
NODES = " ".join(f"n{number}: {{transform: '1'}}," for number in range(120))
LIMITED = "name: limited\nnodes: {a: {wait: 1h, deadline: 2h}}"
AWAITS = "name: awaits\nnodes: {a: {signal: {name: go, deadline: 1h}}}"
MANY = f"name: many\nnodes: {{{NODES} last: {{needs: [n0], wait: 1h}}}}"


async def queued(calls: Calls) -> UUID:
    return await calls.start()


async def running(calls: Calls) -> UUID:
    run = await calls.start()
    await calls.grant(run)
    return run


async def backing_off(calls: Calls) -> UUID:
    run = await calls.start()
    await calls.fail((await calls.grant(run)).lease)
    return run


async def waiting(calls: Calls) -> UUID:
    await calls.publish(WAIT)
    return await calls.start("waits")


async def limited(calls: Calls) -> UUID:
    await calls.publish(LIMITED)
    return await calls.start("limited")


async def awaiting(calls: Calls) -> UUID:
    """A run that waits for a signal, for an hour at most."""
    await calls.publish(AWAITS)
    return await calls.start("awaits")


async def put_off(calls: Calls) -> UUID:
    item = calls.item()
    item.start_after.FromSeconds(3600)
    (result,) = await calls.start_all([item])
    return UUID(result.run_id)


async def in_turn(calls: Calls) -> UUID:
    """A run that waits for its turn behind another."""
    await calls.publish("name: turns\nexclusive: {key: '${input.k}'}\nnodes: {a: {wait: 1h}}")
    key = json.dumps(str(uuid4())).encode()
    payload = b'{"k": %b}' % key
    await calls.start("turns", input=payload)
    return await calls.start("turns", input=payload)


async def advancing(calls: Calls) -> UUID:
    """A run with more inline nodes than one event may begin."""
    await calls.publish(MANY)
    return await calls.start("many")


# Without a word to its parent.
END_CHILD = """
UPDATE runs SET status = 'cancelled', ended_at = clock_timestamp() WHERE parent_run = $1
"""
FAX = "name: fax\nnodes: {a: {http: {method: POST, url: 'http://fax/'}}}"
CHILD = "name: child\nnodes: {a: {task: {handler: h}}}"
PARENT = "name: parent\nnodes: {a: {run: {workflow: child}}}"
LEAVING = "name: parent\nnodes: {a: {run: {workflow: child, wait: false, on_parent_end: wait}}}"


async def asking(calls: Calls) -> UUID:
    """A run whose child is to be started."""
    await calls.publish(CHILD)
    await calls.publish(PARENT)
    return await calls.start("parent")


async def waiting_out(calls: Calls) -> UUID:
    """A run whose step waits until the call of an earlier holder is over."""
    await calls.publish(FAX)
    run = await calls.start("fax")
    for _ in range(2):
        lease = (await calls.grant(run)).lease
        await calls.begin_effect(lease)
        await calls.release(lease)
    return run


async def in_review(calls: Calls) -> UUID:
    """A run whose step waits for a person, because nobody knows what became of its call."""
    await calls.publish(FAX)
    run = await calls.start("fax")
    lease = (await calls.grant(run)).lease
    await calls.begin_effect(lease)
    unknown = dispatch.EFFECT_OUTCOME_UNKNOWN
    failed = dispatch.StepFailure(code="BROKEN")
    await calls.report(hot.ReportResultItem(lease=lease, failure=failed, effect_outcome=unknown))
    return run


async def with_child(calls: Calls, run: UUID) -> UUID:
    """Have the child of a run started: the timers are numbered in order."""
    firing = [hot.TimerRef(timer_id=n, run_id=str(run), org=calls.org) for n in range(1, 20)]
    await calls.fire(*firing)
    return run


async def calling(calls: Calls) -> UUID:
    """A run whose step waits for its child."""
    return await with_child(calls, await asking(calls))


async def ending(calls: Calls) -> UUID:
    """A run whose end waits for its child, all its nodes ended."""
    await calls.publish(CHILD)
    await calls.publish(LEAVING)
    return await with_child(calls, await calls.start("parent"))


SABOTAGE = [
    pytest.param(
        waiting_out,
        "DELETE FROM timers WHERE run_id = $1 AND kind = 'effect_wait'",
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-out-a-call-without-a-timer",
    ),
    pytest.param(
        in_review,
        "UPDATE effects SET status = 'refused' WHERE run_id = $1",
        (1, "parked", "parked for a cause that does not stand"),
        id="in-review-of-a-call-that-needs-none",
    ),
    pytest.param(
        queued,
        "DELETE FROM outbox WHERE run_id = $1",
        (1, "queued", "queued without an outbox row"),
        id="queued-without-outbox-row",
    ),
    pytest.param(
        queued,
        "UPDATE outbox SET state = 'blocked' WHERE run_id = $1",
        (1, "queued", "blocked for a cause that does not stand"),
        id="blocked-without-cause",
    ),
    pytest.param(
        running,
        "UPDATE steps SET lease_expires_at = clock_timestamp() - interval '61 s' WHERE run_id = $1",
        (1, "running", "running under a lease that ended long ago"),
        id="running-under-a-lease-of-long-ago",
    ),
    pytest.param(
        backing_off,
        "DELETE FROM timers WHERE run_id = $1",
        (1, "backing_off", "backing off without a retry timer"),
        id="backing-off-without-timer",
    ),
    pytest.param(
        backing_off,
        "UPDATE timers SET kind = 'wait' WHERE run_id = $1",
        (1, "backing_off", "backing off without a retry timer"),
        id="backing-off-with-a-timer-of-another-kind",
    ),
    pytest.param(
        waiting,
        "DELETE FROM timers WHERE run_id = $1",
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-without-timer",
    ),
    pytest.param(
        asking,
        "DELETE FROM timers WHERE run_id = $1",
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-for-a-child-that-nobody-starts",
    ),
    pytest.param(
        calling,
        END_CHILD,
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-for-a-child-whose-end-is-lost",
    ),
    pytest.param(
        ending,
        END_CHILD,
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-whose-end-waits-for-a-child-whose-end-is-lost",
    ),
    pytest.param(
        limited,
        "DELETE FROM timers WHERE run_id = $1 AND kind = 'wait'",
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-with-nothing-but-a-deadline",
    ),
    pytest.param(
        awaiting,
        "DELETE FROM signal_waits WHERE run_id = $1",
        (1, "waiting", "waiting for nothing that will come"),
        id="waiting-for-a-signal-without-its-open-wait",
    ),
    pytest.param(
        queued,
        "WITH gone AS (DELETE FROM outbox WHERE run_id = $1)"
        " UPDATE steps SET status = 'parked', parked_on = 'pause', parked_generation = 1,"
        " parked_from = 'queued' WHERE run_id = $1",
        (1, "parked", "parked for a cause that does not stand"),
        id="parked-without-cause",
    ),
    pytest.param(
        waiting,
        "UPDATE steps SET status = 'parked', parked_on = 'timer', parked_generation = 0,"
        " parked_from = 'waiting' WHERE run_id = $1",
        (1, "parked", "parked for a cause that does not stand"),
        id="parked-on-a-timer-that-is-not-held",
    ),
    pytest.param(
        queued,
        "WITH gone AS (DELETE FROM outbox WHERE run_id = $1)"
        " UPDATE steps SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1",
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-with-nothing-left-to-do",
    ),
    pytest.param(
        in_turn,
        "DELETE FROM exclusive_waiters WHERE run_id = $1",
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-that-lost-its-place",
    ),
    pytest.param(
        in_turn,
        "UPDATE exclusive_keys AS k SET holder = NULL FROM exclusive_waiters AS w"
        " WHERE w.run_id = $1 AND k.org = w.org AND k.key = w.key",
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-that-waits-for-a-key-that-nobody-has",
    ),
    pytest.param(
        put_off,
        "DELETE FROM timers WHERE run_id = $1",
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-that-is-never-begun",
    ),
    pytest.param(
        advancing,
        "WITH gone AS (DELETE FROM timers WHERE run_id = $1)"
        " UPDATE steps SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1",
        (None, "running", "running with no unfinished step and no internal event"),
        id="run-whose-internal-event-is-lost",
    ),
]


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def look(database: Database) -> Callable[[], Awaitable[float]]:
    """Makes a full pass of an active sweeper and returns what it publishes."""
    leadership = Leadership("sweeper", SystemClock())
    leadership.trust_until(float("inf"))
    sweeper = Audit(await database.open_pool("sweeper"), leadership)

    async def run() -> float:
        await sweeper.run_once()
        return float(NO_WAY_FORWARD._value.get())

    return run


@pytest.mark.breaks_r10("each case deletes or damages a way forward")
@pytest.mark.parametrize(("make", "sabotage", "finding"), SABOTAGE)
async def test_r10_the_view_names_what_was_broken(
    calls: Calls,
    rows: asyncpg.Connection,
    database: Database,
    look: Callable[[], Awaitable[float]],
    make: Make,
    sabotage: str,
    finding: tuple[int | None, str, str],
) -> None:
    run = await make(calls)
    await make(calls)
    assert await database.without_way_forward() == []
    assert await look() == 0

    await rows.execute(sabotage, run)

    found = await rows.fetch("SELECT org, run_id, step, status, missing FROM no_way_forward")
    assert [tuple(row) for row in found] == [("default", run, *finding)]
    assert await look() == 1


@pytest.mark.parametrize(
    ("make", "change"),
    [
        pytest.param(
            running,
            "UPDATE steps SET lease_expires_at = clock_timestamp() - interval '50 s'"
            " WHERE run_id = $1",
            id="a-lease-that-ended-just-now",
        ),
        pytest.param(
            queued,
            "UPDATE outbox SET state = 'sent', sent_at = clock_timestamp(), entry_id = '1-1'"
            " WHERE run_id = $1",
            id="a-sent-row",
        ),
        pytest.param(
            advancing,
            "UPDATE steps SET status = 'completed', ended_at = clock_timestamp()"
            " WHERE run_id = $1 AND status = 'waiting'",
            id="an-internal-event",
        ),
        pytest.param(
            calling,
            "UPDATE timers SET next_try = next_try WHERE run_id = $1",
            id="an-unfinished-child",
        ),
        pytest.param(
            ending,
            "UPDATE timers SET next_try = next_try WHERE run_id = $1",
            id="an-unfinished-child-that-an-end-waits-for",
        ),
        pytest.param(
            awaiting,
            "DELETE FROM timers WHERE run_id = $1",
            id="an-open-wait-for-a-signal",
        ),
        pytest.param(
            waiting,
            "UPDATE timers SET next_try = next_try + interval '5 min', tries = 9 WHERE run_id = $1",
            id="a-timer-that-was-put-off",
        ),
    ],
)
async def test_r10_what_has_its_way_forward_is_not_named(
    calls: Calls, rows: asyncpg.Connection, database: Database, make: Make, change: str
) -> None:
    run = await make(calls)

    await rows.execute(change, run)

    assert await database.without_way_forward() == []


@pytest.mark.breaks_r10("a run far down the pages loses its outbox row")
async def test_f057_r10_one_stuck_run_behind_pages_of_healthy_ones_is_found(
    calls: Calls,
    rows: asyncpg.Connection,
    look: Callable[[], Awaitable[float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "PAGE", 10)
    for _ in range(3):
        await calls.start_all([calls.item() for _ in range(10)])
    run = await calls.start()
    await rows.execute("DELETE FROM outbox WHERE run_id = $1", run)

    assert await look() == 1


@pytest.mark.breaks_r10("a run loses its outbox row")
async def test_a_sweeper_that_stopped_leading_tells_of_nothing(
    calls: Calls, rows: asyncpg.Connection, database: Database
) -> None:
    await rows.execute("DELETE FROM outbox WHERE run_id = $1", await calls.start())
    leadership = Leadership("sweeper", SystemClock())
    leadership.trust_until(float("inf"))
    sweeper = Audit(await database.open_pool("sweeper"), leadership)
    await sweeper.run_once()

    leadership.trust_until(float("-inf"))
    await sweeper.run_once()

    assert NO_WAY_FORWARD._value.get() == 0
