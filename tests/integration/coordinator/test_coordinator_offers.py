"""First steps are handed at once to workers that wait for them, and else go by the relay (p2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1.offers_pb2 import AwaitStepResponse
from perdure_coordinator.wakeups import OUTBOX
from perdure_runtime.errors import InvalidArgument
from perdure_runtime.fail_points import Pause, Raise, arm
from perdure_runtime.lifecycle import Service
from perdure_runtime.rpc.errors import from_call_error
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database
from perdure_testkit.waiting import eventually
from prometheus_client import REGISTRY

Serve = Callable[..., Awaitable[tuple[Service, str]]]

QUEUE = "io:default"
HTTP = "name: call\nnodes: {a: {http: {method: POST, url: 'http://x/', effect: provider}}}"
TWO = "name: two\nnodes: {a: {task: {handler: h}}, b: {task: {handler: h}}}"
ROWS = "SELECT count(*) FROM outbox"
STATUS = "SELECT status FROM steps"
COUNTED = "SELECT failures + losses FROM steps"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def told(database: Database) -> asyncio.Queue[None]:
    """Filled whenever the relay is woken."""
    woken: asyncio.Queue[None] = asyncio.Queue()
    listening = await database.connect()
    await listening.add_listener(OUTBOX, lambda *_: woken.put_nowait(None))
    return woken


async def waiting(count: int) -> None:
    """Return when so many offers wait for their answers."""
    await eventually(lambda: REGISTRY.get_sample_value("perdure_coordinator_offers") == count)


async def test_a_first_step_is_handed_to_who_waits_for_it_and_its_row_goes(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    offer = calls.offer("slow:default", QUEUE)
    await waiting(1)

    run = await calls.start(input=b'{"n": 1}')
    grant = (await offer).grant

    assert (grant.lease.run_id, grant.lease.step, grant.lease.fence) == (str(run), 1, 1)
    assert (grant.queue, grant.handler, grant.input) == (QUEUE, "h", b'{"n": 1}')
    assert 9_000 < grant.lease_ms <= 10_000
    assert await rows.fetchval(ROWS) == 0
    assert told.empty()
    assert (await calls.succeed(grant.lease)).status == hot.ITEM_STATUS_APPLIED


async def test_the_lease_is_the_offers_and_nobody_elses(calls: Calls) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)
    run = await calls.start()
    grant = (await offer).grant

    (other,) = await calls.acquire(run)
    (again,) = await calls.acquire(run, lease_id=grant.lease.lease_id)

    assert other.status == hot.ACQUIRE_STATUS_GONE
    assert again.grant.lease == grant.lease


async def test_r7_an_answer_tells_how_long_the_offer_had_waited_for_its_lease_to_be_asked_for(
    calls: Calls,
) -> None:
    sent_at = time.monotonic()
    offer = calls.offer(QUEUE)
    await waiting(1)
    there_at = time.monotonic()
    for _ in range(10):
        await calls.renew()
    started_at = time.monotonic()
    with arm("coordinator.hand_out", "before", Pause()) as pause:
        await calls.start()
        await pause.reached.wait()
        asked_at = time.monotonic()
        for _ in range(10):
            await calls.renew()
        pause.release.set()
        waited = (await offer).waited_ms / 1000

    assert started_at - there_at - 0.001 < waited <= asked_at - sent_at


async def test_a_start_that_nobody_waits_for_goes_by_the_relay(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    await calls.start()

    await told.get()
    assert await rows.fetchval(ROWS) == 1


@pytest.mark.parametrize("queue", ["io:other", "slow:default", "io:shared"])
async def test_p12_a_step_is_handed_to_nobody_who_waits_at_another_queue(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None], queue: str
) -> None:
    offer = calls.offer(queue, wait_ms=500)
    await waiting(1)

    await calls.start()

    await told.get()
    assert not (await offer).HasField("grant")
    assert await rows.fetchval(ROWS) == 1


async def test_of_two_starts_one_offer_takes_one(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)

    results = await calls.start_all([calls.item(), calls.item()])

    grant = (await offer).grant
    assert grant.lease.run_id == results[0].run_id
    await told.get()
    assert await rows.fetchval(ROWS) == 1
    assert (await calls.grant(other := UUID(results[1].run_id))).lease.run_id == str(other)


async def test_who_waits_for_longest_is_the_next(calls: Calls) -> None:
    first = calls.offer(QUEUE)
    await waiting(1)
    second = calls.offer(QUEUE)
    await waiting(2)

    runs = [await calls.start() for _ in range(2)]

    answers = [await first, await second]
    assert [answer.grant.lease.run_id for answer in answers] == list(map(str, runs))


async def test_a_run_that_begins_with_several_steps_goes_by_the_relay(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(TWO)
    offer = calls.offer(QUEUE, wait_ms=500)
    await waiting(1)

    await calls.start("two")

    assert not (await offer).HasField("grant")
    assert await rows.fetchval(ROWS) == 2


async def test_an_outside_call_is_handed_out_with_its_effect_in_flight(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(HTTP)
    offer = calls.offer("io:shared")
    await waiting(1)

    await calls.start("call")

    assert (await offer).grant.effect.calls == 1
    assert await rows.fetchval("SELECT status FROM effects") == "in_flight"


async def test_an_offer_ends_with_nothing_when_its_time_is_over(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    assert await calls.offer(QUEUE, wait_ms=1) == AwaitStepResponse()

    await calls.start()

    await told.get()
    assert await rows.fetchval(ROWS) == 1


async def test_who_has_gone_is_handed_nothing(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)
    offer.cancel()
    await waiting(0)

    await calls.start()

    await told.get()
    assert await rows.fetchval(ROWS) == 1


async def test_the_step_of_one_who_goes_while_it_is_leased_is_queued_again_at_once(
    calls: Calls, rows: asyncpg.Connection, told: asyncio.Queue[None]
) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)
    with arm("coordinator.hand_out", "after", Pause()) as pause:
        run = await calls.start()
        await pause.reached.wait()
        offer.cancel()
        await waiting(0)
        pause.release.set()
        await told.get()

    assert await rows.fetchval(ROWS) == 1
    assert await rows.fetchval(STATUS) == "queued"
    assert await rows.fetchval(COUNTED) == 0
    assert (await calls.grant(run)).lease.fence == 2


@pytest.mark.parametrize(("side", "left"), [("before", 1), ("after", 0)])
async def test_r3_r4_what_hinders_it_leaves_the_row_or_the_lease(
    calls: Calls,
    rows: asyncpg.Connection,
    told: asyncio.Queue[None],
    side: str,
    left: int,
) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)
    with arm("coordinator.hand_out", side, Raise()):
        await calls.start()
        assert await offer == AwaitStepResponse()

    await told.get()
    assert await rows.fetchval(ROWS) == left
    assert await rows.fetchval(STATUS) == ("queued" if left else "running")


async def test_a_run_that_is_cancelled_meanwhile_is_handed_to_nobody(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    offer = calls.offer(QUEUE)
    await waiting(1)
    with arm("coordinator.hand_out", "before", Pause()) as pause:
        run = await calls.start()
        await pause.reached.wait()
        await calls.cancel(run)
        pause.release.set()
        assert await offer == AwaitStepResponse()

    assert await rows.fetchval(STATUS) != "running"


async def test_f065_a_coordinator_that_drains_lets_who_waits_go(
    serve: Serve, call_at: Callable[..., Calls]
) -> None:
    service, address = await serve()
    offer = call_at(address).offer(QUEUE)
    await waiting(1)

    await service.drain()

    assert await offer == AwaitStepResponse()


async def test_without_remembered_runs_the_step_is_handed_out_all_the_same(
    serve: Serve, call_at: Callable[..., Calls]
) -> None:
    _, address = await serve(remembered_runs=0)
    calls = call_at(address)
    await calls.publish("name: w\nnodes: {a: {task: {handler: h}}}")
    offer = calls.offer(QUEUE)
    await waiting(1)

    run = await calls.start()

    assert (await offer).grant.lease.run_id == str(run)


@pytest.mark.parametrize(("queues", "wait_ms"), [((), 10), ((QUEUE,), 0), ((QUEUE,), 10_001)])
async def test_an_offer_that_cannot_be_kept_is_refused(
    calls: Calls, queues: tuple[str, ...], wait_ms: int
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calls.offer(*queues, wait_ms=wait_ms)

    assert isinstance(from_call_error(refused.value), InvalidArgument)
