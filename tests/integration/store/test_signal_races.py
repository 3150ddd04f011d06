"""A wait and a signal by its key, a signal and its deadline: each order made certain."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest
from perdure_machine.events import CancelRun, DeliverSignals, Event, FireTimer, SendSignal
from perdure_machine.mailbox import SignalState
from perdure_machine.replies import Applied, Cancelled, Closed, Stale
from perdure_machine.states import RunStatus, StepStatus
from perdure_runtime.fail_points import FailPointHit, Pause, Raise, arm
from perdure_store.apply.batch import Answers, OrgEvent, RunEvents, Skipped
from perdure_store.signals import Kept, KeyedSignal, keep_signals
from perdure_testkit.database import Database
from perdure_testkit.engines.asking import start_request
from perdure_testkit.engines.driver import ORG, Driver, new_signal_id, success
from perdure_testkit.engines.port import StartOf
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.waiting import wait_until_blocked

EVENTS, SIGNALS = "store.commit_events", "store.commit_signals"
TASK = {"handler": "x"}
LATER = {
    "first": {"task": TASK},
    "a": {"signal": {"name": "go", "key": "${input.key}"}, "needs": ["first"]},
}
AT_ONCE = {"a": {"signal": {"name": "go", "key": "${input.key}"}}}
PATIENT = {"a": {"signal": {"name": "go", "deadline": "1h"}, "on_failure": [{"output": "late"}]}}
LOCK_KEY = "SELECT FROM correlation_keys WHERE org = $1 AND correlation_key = $2 FOR UPDATE"
MAKE_KEYS = """
INSERT INTO correlation_keys SELECT $1, unnest($2::text[]), NULL, clock_timestamp()
"""
PATIENCE = 3600.0


def by(key: str, data: bytes = b"1") -> KeyedSignal:
    return KeyedSignal(ORG, SignalState(new_signal_id(), "go", data, key))


async def keep(connection: asyncpg.Connection, *signals: KeyedSignal) -> Sequence[Kept | Exception]:
    return await keep_signals(connection, signals, patience=PATIENCE)


async def apply(
    port: PostgresPort, connection: asyncpg.Connection, run: UUID, *events: Event
) -> list[Answers | Skipped]:
    batch = [RunEvents(run, tuple(OrgEvent(ORG, event) for event in events))]
    return await port.applier.apply(connection, batch, wait=True)


async def test_f021_p6_a_wait_that_registers_while_its_signal_is_stored_takes_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The signal holds the key: the wait blocks on it, and sees the signal afterwards."""
    await driver.publish(LATER)
    run = await driver.start(b'{"key": "k"}')
    report = success(await driver.acquire(run, "first"))
    sender = await database.connect("coordinator")
    with arm(SIGNALS, "before", pause := Pause()):
        sending = asyncio.create_task(keep(sender, by("k")))
        await pause.reached.wait()
        registering = asyncio.create_task(apply(port, port.coordinator, run, report))
        await wait_until_blocked(sender)
        pause.release.set()
        assert await sending == [Kept(True, None)]
        await registering
    assert (await driver.step(run, "a")).output == b"1"


async def test_f021_p6_a_signal_that_comes_while_its_wait_registers_is_told_the_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The wait holds the key: the signal blocks on it, and then knows whose it is."""
    await driver.publish(LATER)
    run = await driver.start(b'{"key": "k"}')
    report = success(await driver.acquire(run, "first"))
    sender = await database.connect("coordinator")
    with arm(EVENTS, "before", pause := Pause()):
        registering = asyncio.create_task(apply(port, port.coordinator, run, report))
        await pause.reached.wait()
        sending = asyncio.create_task(keep(sender, by("k")))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await registering
        assert await sending == [Kept(True, run)]
    assert (await driver.step(run, "a")).status is StepStatus.WAITING
    assert await driver.submit(run, DeliverSignals("go")) == Applied()
    assert (await driver.step(run, "a")).output == b"1"


async def test_f021_p6_a_start_that_waits_at_once_and_its_signal_do_not_miss_each_other(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(AT_ONCE)
    sender = await database.connect("coordinator")
    request = start_request(ORG, StartOf(driver.workflow, b'{"key": "k"}'))
    with arm(SIGNALS, "before", pause := Pause()):
        sending = asyncio.create_task(keep(sender, by("k")))
        await pause.reached.wait()
        starting = asyncio.create_task(port.starter.start(port.coordinator, [request]))
        await wait_until_blocked(sender)
        pause.release.set()
        await sending
        (started,) = await starting
    assert not isinstance(started, Exception)
    assert (await driver.step(started.run_id, "a")).output == b"1"


async def test_p6_a_signal_that_meets_the_end_of_its_run_waits_for_the_next(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """The end holds the key and frees it: what comes later is for whoever asks next."""
    await driver.publish(AT_ONCE)
    run = await driver.start(b'{"key": "k"}')
    sender = await database.connect("coordinator")
    with arm(EVENTS, "before", pause := Pause()):
        ending = asyncio.create_task(apply(port, port.coordinator, run, CancelRun()))
        await pause.reached.wait()
        sending = asyncio.create_task(keep(sender, by("k")))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        assert await ending == [(Cancelled(changed=True),)]
        assert await sending == [Kept(True, None)]
    await driver.settle()
    other = await driver.start(b'{"key": "k"}')
    assert (await driver.step(other, "a")).output == b"1"


async def test_p6_a_signal_just_before_the_end_of_its_run_goes_with_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(AT_ONCE)
    run = await driver.start(b'{"key": "k"}')
    sender = await database.connect("coordinator")
    with arm(SIGNALS, "before", pause := Pause()):
        sending = asyncio.create_task(keep(sender, by("k")))
        await pause.reached.wait()
        ending = asyncio.create_task(apply(port, port.coordinator, run, CancelRun()))
        await wait_until_blocked(sender)
        pause.release.set()
        assert await sending == [Kept(True, run)]
        await ending
    assert await driver.submit(run, DeliverSignals("go")) == Stale()
    assert await port.admin.fetchval("SELECT expires_at > clock_timestamp() FROM signals")
    await driver.settle()


async def test_p6_of_two_runs_that_ask_for_a_key_at_once_one_has_it(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(LATER)
    runs = [await driver.start(b'{"key": "k"}') for _ in range(2)]
    first, second = [success(await driver.acquire(run, "first")) for run in runs]
    rival = await database.connect("coordinator")
    with arm(EVENTS, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, port.coordinator, runs[0], first))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, rival, runs[1], second))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await earlier
        await later
    assert (await driver.step(runs[0], "a")).status is StepStatus.WAITING
    failed = await driver.step(runs[1], "a")
    assert failed.error is not None
    assert failed.error.code == "KEY_TAKEN"


@pytest.mark.parametrize("signal_first", [True, False])
async def test_r9_between_a_signal_and_its_deadline_there_is_one_winner(
    driver: Driver, port: PostgresPort, database: Database, signal_first: bool
) -> None:
    await driver.publish(PATIENT)
    run = await driver.start()
    await port.advance(3_601)
    (timer,) = await port.timers()
    events: list[Event] = [
        SendSignal(SignalState("s", "go", b'"in time"')),
        FireTimer(timer.timer_id),
    ]
    first, second = events if signal_first else reversed(events)
    rival = await database.connect("coordinator")
    with arm(EVENTS, "before", pause := Pause()):
        earlier = asyncio.create_task(apply(port, port.coordinator, run, first))
        await pause.reached.wait()
        later = asyncio.create_task(apply(port, rival, run, second))
        await wait_until_blocked(port.coordinator)
        pause.release.set()
        await earlier
        ((answer,),) = await later  # type: ignore[misc]
    assert (await driver.step(run, "a")).output == (b'"in time"' if signal_first else b'"late"')
    assert answer == (Stale() if signal_first else Closed(RunStatus.COMPLETED))
    assert not await port.timers()


async def test_p6_a_signal_whose_second_step_never_came_is_swept_and_taken_once(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(AT_ONCE)
    run = await driver.start(b'{"key": "k"}')
    signal = by("k")
    sender = await database.connect("coordinator")
    with arm(SIGNALS, "after", Raise()), pytest.raises(FailPointHit):
        await keep(sender, signal)
    assert await keep(sender, replace(signal)) == [Kept(False, run)]
    assert await driver.sweep_signals() == [Applied()]
    assert (await driver.step(run, "a")).output == b"1"
    assert await driver.sweep_signals() == []


async def test_r14_batches_that_claim_keys_in_other_orders_do_not_deadlock(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    """A key that comes before one that is held is not waited for: the batch begins again."""
    await driver.publish(LATER)
    runs = [await driver.start(b'{"key": "k%d"}' % number) for number in (3, 1, 2)]
    reports = [success(await driver.acquire(run, "first")) for run in runs]
    batch = [
        RunEvents(run, (OrgEvent(ORG, report),))
        for run, report in sorted(zip(runs, reports, strict=True), key=lambda pair: pair[0])
    ]
    await port.admin.execute(MAKE_KEYS, ORG, ["k1", "k2", "k3"])
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute(LOCK_KEY, ORG, "k1")
        applying = asyncio.create_task(port.applier.apply(port.coordinator, batch, wait=True))
        await wait_until_blocked(holder)
        for key in ("k2", "k3"):
            await holder.execute(LOCK_KEY + " NOWAIT", ORG, key)
    await applying
    for run in runs:
        assert (await driver.step(run, "a")).status is StepStatus.WAITING


async def test_r14_a_run_that_ends_frees_its_keys_after_those_that_its_batch_claims(
    driver: Driver, port: PostgresPort
) -> None:
    await driver.publish(LATER)
    ending = await driver.start(b'{"key": "a"}')
    await driver.succeed(await driver.acquire(ending, "first"))
    claiming = await driver.start(b'{"key": "b"}')
    report = success(await driver.acquire(claiming, "first"))
    batch = [
        RunEvents(ending, (OrgEvent(ORG, CancelRun()),)),
        RunEvents(claiming, (OrgEvent(ORG, report),)),
    ]
    await port.applier.apply(port.coordinator, batch, wait=True)
    rows = await port.admin.fetch("SELECT correlation_key, run_id FROM correlation_keys")
    assert [tuple(row) for row in rows] == [("b", claiming)]
    await driver.settle()


async def test_r14_a_start_that_waits_for_a_correlation_key_holds_no_start_key(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(AT_ONCE)
    holder, rival = await database.connect(), await database.connect()
    start = StartOf(driver.workflow, b'{"key": "k"}', start_key="once")
    async with holder.transaction():
        await holder.execute(
            "INSERT INTO correlation_keys (org, correlation_key, touched_at)"
            " VALUES ($1, 'k', clock_timestamp())",
            ORG,
        )
        starting = asyncio.create_task(
            port.starter.start(port.coordinator, [start_request(ORG, start)])
        )
        await wait_until_blocked(holder)
        async with rival.transaction():
            await rival.execute("SET LOCAL lock_timeout = '2 s'")
            taken = await rival.execute(
                "INSERT INTO start_keys (org, start_key, run_id, digest, created_at, expires_at)"
                " VALUES ($1, 'once', gen_random_uuid(), '', now(), now() - interval '1 s')",
                ORG,
            )
    (started,) = await starting
    assert taken == "INSERT 0 1"
    assert not isinstance(started, Exception)
    assert started.created


async def test_p6_a_signal_by_key_locks_no_run(
    driver: Driver, port: PostgresPort, database: Database
) -> None:
    await driver.publish(AT_ONCE)
    run = await driver.start(b'{"key": "k"}')
    holder = await database.connect()
    async with holder.transaction():
        await holder.execute("SELECT FROM runs WHERE run_id = $1 FOR UPDATE", run)
        assert await keep(port.coordinator, by("k")) == [Kept(True, run)]
    assert await driver.sweep_signals() == [Applied()]


async def test_p6_one_signal_that_the_database_refuses_hinders_no_other_of_its_batch(
    driver: Driver, port: PostgresPort
) -> None:
    broken = KeyedSignal(ORG, SignalState("s", "a\0b", b"1", "k"))
    first, refused, last = await keep(port.coordinator, by("k"), broken, by("k"))
    assert (first, last) == (Kept(True, None), Kept(True, None))
    assert isinstance(refused, Exception)


async def test_p6_the_same_id_twice_in_one_batch_by_key_is_one_signal(port: PostgresPort) -> None:
    signal = by("k")
    answers = await keep(port.coordinator, signal, signal)
    assert answers == [Kept(True, None), Kept(False, None)]
