"""Exclusive keys at the same moment: two starts, an end and a new waiter; made certain by locks."""

import asyncio
import random
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.events import CancelRun, Event, FireTimer
from perdure_machine.replies import Applied, Cancelled
from perdure_machine.states import RunStatus, TimerKind
from perdure_runtime.errors import AlreadyExists, PerdureError, Reason
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store.apply.batch import Answers, OrgEvent, RunEvents, Skipped
from perdure_store.apply.starter import StartAnswer, StartOutcome
from perdure_testkit.database import Database
from perdure_testkit.engines.asking import start_request
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.port import StartOf
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

STARTS, EVENTS = "store.commit_starts", "store.commit_events"
TASK: dict[str, object] = {"a": {"task": {"handler": "x"}}}
KEYED = {"key": "${input.k}"}
ONE = b'{"k": "one"}'


async def start(
    driver: Driver, port: PostgresPort, connection: asyncpg.Connection, *payloads: bytes
) -> list[StartOutcome]:
    """Start runs in one batch, as a coordinator of its own does."""
    requests = [start_request(ORG, StartOf(driver.workflow, payload)) for payload in payloads]
    return await port.starter.start(connection, requests)


def run_of(outcome: StartOutcome) -> UUID:
    assert isinstance(outcome, StartAnswer), outcome
    return outcome.run_id


async def apply(
    port: PostgresPort, connection: asyncpg.Connection, run: UUID, *these: Event
) -> list[Answers | Skipped]:
    batch = [RunEvents(run, tuple(OrgEvent(ORG, event) for event in these))]
    return await port.applier.apply(connection, batch, wait=True)


async def hand_over(port: PostgresPort) -> FireTimer:
    (timer,) = [one for one in await port.timers() if one.kind is TimerKind.HAND_OVER]
    return FireTimer(timer.timer_id)


async def begun(port: PostgresPort, *runs: UUID) -> list[bool]:
    return [not (await port.run(run)).pending for run in runs]


@pytest.mark.parametrize("policy", ["queue", "refuse", "replace"])
async def test_of_two_starts_on_one_key_at_the_same_moment_one_has_it(
    driver: Driver, port: PostgresPort, database: Database, policy: str
) -> None:
    await driver.publish(TASK, exclusive={**KEYED, "policy": policy})
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(STARTS, "before", pause := Pause()):
        earlier = asyncio.create_task(start(driver, port, first, ONE))
        await pause.reached.wait()
        later = asyncio.create_task(start(driver, port, second, ONE))
        await wait_until_blocked(first)
        pause.release.set()
        (won,), (lost,) = await earlier, await later
    holder = run_of(won)
    if policy == "refuse":
        assert isinstance(lost, AlreadyExists)
        assert (lost.reason, lost.metadata["run_id"]) == (
            Reason.EXCLUSIVE_KEY_HELD,
            str(holder),
        )
        return
    assert await begun(port, holder, run_of(lost)) == [True, False]
    await driver.settle()
    cancelled = (await port.run(holder)).status is RunStatus.CANCELLED
    assert cancelled is (policy == "replace")
    assert not await port.no_way_forward()


async def test_when_the_first_of_two_starts_is_rolled_back_the_second_has_the_key(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK, exclusive=KEYED)
    first, second = [await database.connect("coordinator") for _ in range(2)]
    with arm(STARTS, "before", pause := Pause()):
        earlier = asyncio.create_task(start(driver, port, first, ONE))
        await pause.reached.wait()
        later = asyncio.create_task(start(driver, port, second, ONE))
        await wait_until_blocked(first)
        earlier.cancel()
        pause.release.set()
        (won,) = await later
    assert await begun(port, run_of(won)) == [True]


async def test_a_waiter_that_comes_while_the_key_is_handed_over_has_it_in_the_end(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The hand-over holds the key, frees it, and only then the start looks."""
    await driver.publish(TASK, exclusive=KEYED)
    holder = await driver.start(ONE)
    await driver.submit(holder, CancelRun())
    fire = await hand_over(port)
    ending, starting = [await database.connect("coordinator") for _ in range(2)]
    with arm(EVENTS, "before", pause := Pause()):
        freeing = asyncio.create_task(apply(port, ending, holder, fire))
        await pause.reached.wait()
        coming = asyncio.create_task(start(driver, port, starting, ONE))
        await wait_until_blocked(ending)
        pause.release.set()
        assert await freeing == [(Applied(),)]
        (come,) = await coming
    assert await begun(port, run_of(come)) == [True]
    await driver.settle()
    assert not await port.no_way_forward()


async def test_a_hand_over_that_comes_while_a_waiter_joins_finds_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The start saw a holder that had not ended, which ends before the start commits."""
    await driver.publish(TASK, exclusive=KEYED)
    holder = await driver.start(ONE)
    starting, ending, handing = [await database.connect("coordinator") for _ in range(3)]
    with arm(STARTS, "before", pause := Pause()):
        coming = asyncio.create_task(start(driver, port, starting, ONE))
        await pause.reached.wait()
        assert await apply(port, ending, holder, CancelRun()) == [(Cancelled(changed=True),)]
        passing = asyncio.create_task(apply(port, handing, holder, await hand_over(port)))
        await wait_until_blocked(starting)
        pause.release.set()
        (come,) = await coming
        assert await passing == [(Applied(),)]
    assert await begun(port, run_of(come)) == [False]
    await driver.settle()
    assert await begun(port, run_of(come)) == [True]


async def test_r14_a_hand_over_takes_its_key_before_its_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """While it waits for the key, it holds no run that others wait for."""
    await driver.publish(TASK, exclusive=KEYED)
    holder = await driver.start(ONE)
    await driver.submit(holder, CancelRun())
    fire = await hand_over(port)
    keeper = await database.connect()
    keeping = keeper.transaction()
    await keeping.start()
    await keeper.execute("SELECT FROM exclusive_keys FOR UPDATE")
    handing = await database.connect("coordinator")
    passing = asyncio.create_task(apply(port, handing, holder, fire))
    await wait_until_blocked(keeper)
    await keeper.execute("SELECT FROM runs WHERE run_id = $1 FOR UPDATE NOWAIT", holder)
    await keeping.commit()
    assert await passing == [(Applied(),)]


async def test_starts_of_one_batch_on_one_key_keep_their_order(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(TASK, exclusive=KEYED)
    outcomes = await start(driver, port, port.coordinator, *[ONE] * 4, b'{"k": 2}')
    runs = [run_of(outcome) for outcome in outcomes]
    assert await begun(port, *runs) == [True, False, False, False, True]
    for place in range(3):
        await driver.submit(runs[place], CancelRun())
        await driver.settle()
        expected = [True] * (place + 2) + [False] * (2 - place)
        assert await begun(port, *runs[:4]) == expected


async def test_those_refused_hinder_no_other_start_of_their_batch_and_leave_no_trace(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(TASK, exclusive={**KEYED, "policy": "refuse"})
    asked = [StartOf(driver.workflow, ONE, start_key=f"k{i % 2}") for i in range(4)]
    asked.append(StartOf(driver.workflow, b'{"k": 2}'))
    requests = [start_request(ORG, one) for one in asked]
    outcomes = await port.starter.start(port.coordinator, requests)
    kinds = [outcome.reason if isinstance(outcome, PerdureError) else None for outcome in outcomes]
    assert kinds == [None, Reason.EXCLUSIVE_KEY_HELD, None, Reason.RETRY, None]
    assert run_of(outcomes[0]) == run_of(outcomes[2])
    keys = await port.admin.fetch("SELECT start_key, run_id FROM start_keys")
    assert [tuple(row) for row in keys] == [("k0", run_of(outcomes[0]))]


async def test_runs_of_one_key_in_one_batch_of_events_take_their_turns(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(TASK, exclusive=KEYED)
    outcomes = await start(driver, port, port.coordinator, *[ONE] * 3)
    runs = [run_of(outcome) for outcome in outcomes]
    for run in runs[:2]:
        await driver.submit(run, CancelRun())
    timers = {one.run_id: one for one in await port.timers() if one.kind is TimerKind.HAND_OVER}
    batch = [RunEvents(run, (OrgEvent(ORG, FireTimer(timers[run].timer_id)),)) for run in runs[:2]]
    first, second = await port.applier.apply(port.coordinator, batch, wait=False)
    assert first == (Applied(),)
    assert isinstance(second, tuple)
    assert isinstance(second[0], PerdureError)
    assert second[0].reason is Reason.RETRY
    await driver.settle()
    assert await begun(port, runs[2]) == [True]


async def test_r5_a_hand_over_that_failed_is_made_good_by_its_next_delivery(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(TASK, exclusive=KEYED)
    first, second = await driver.start(ONE), await driver.start(ONE)
    await driver.submit(first, CancelRun())
    fire = await hand_over(port)
    connection = await database.connect("coordinator")
    with arm(EVENTS, "before", Raise()), pytest.raises(FailPointHit):
        await apply(port, connection, first, fire)
    assert not await port.no_way_forward()
    await driver.settle()
    assert await begun(port, second) == [True]


async def test_r14_f115_starts_and_hand_overs_of_many_keys_in_any_order_never_deadlock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish({"a": {"transform": 1}}, exclusive=KEYED)
    payloads = [b'{"k": %d}' % number for number in range(12)]

    async def starts(seed: int) -> None:
        connection, order = await database.connect("coordinator"), random.Random(seed)
        for _ in range(6):
            shuffled = order.sample(payloads, len(payloads))
            for outcome in await start(driver, port, connection, *shuffled):
                run_of(outcome)

    async def hand_overs(seed: int) -> None:
        connection, order = await database.connect("coordinator"), random.Random(seed)
        for _ in range(8):
            timers = list(await port.timers())
            order.shuffle(timers)
            batch = {
                one.run_id: RunEvents(one.run_id, (OrgEvent(ORG, FireTimer(one.timer_id)),))
                for one in timers
            }
            await port.applier.apply(connection, list(batch.values()), wait=False)

    await asyncio.gather(starts(1), starts(2), hand_overs(3))
    await driver.settle()
    runs = await port.admin.fetch("SELECT status::text FROM runs")
    assert {row["status"] for row in runs} == {"completed"}
    assert len(runs) == 144
    assert await port.admin.fetchval("SELECT count(*) FROM exclusive_keys") == 0
