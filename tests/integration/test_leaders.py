"""A duty has one holder at a time, by the database clock (R7)."""

import asyncio

import pytest
from perdure_runtime.errors import Unavailable
from perdure_runtime.fail_points import Raise, arm
from perdure_store.leaders import PostgresLeaseStore
from perdure_testkit.database import Database
from perdure_testkit.waiting import wait_until_blocked

TTL = 30.0


@pytest.fixture
async def store(database: Database) -> PostgresLeaseStore:
    return PostgresLeaseStore(await database.open_pool("timer"))


async def expire(database: Database) -> None:
    connection = await database.connect()
    await connection.execute("UPDATE leaders SET expires_at = clock_timestamp()")


async def test_a_free_duty_is_granted_for_the_time_asked(store: PostgresLeaseStore) -> None:
    remaining = await store.acquire_or_renew("timer", "a", TTL)

    assert remaining is not None
    assert TTL - 1 < remaining <= TTL


async def test_a_held_duty_is_refused_to_others_and_renewed_for_its_holder(
    store: PostgresLeaseStore,
) -> None:
    await store.acquire_or_renew("timer", "a", TTL)

    assert await store.acquire_or_renew("timer", "b", TTL) is None
    renewed = await store.acquire_or_renew("timer", "a", 2 * TTL)
    assert renewed is not None
    assert renewed > TTL


async def test_duties_do_not_hinder_each_other(store: PostgresLeaseStore) -> None:
    await store.acquire_or_renew("relay:io:0", "a", TTL)

    assert await store.acquire_or_renew("relay:io:1", "b", TTL) is not None


async def test_a_lapsed_duty_passes_to_who_asks(
    store: PostgresLeaseStore, database: Database
) -> None:
    await store.acquire_or_renew("timer", "a", TTL)
    await expire(database)

    assert await store.acquire_or_renew("timer", "b", TTL) is not None
    assert await store.acquire_or_renew("timer", "a", TTL) is None


async def test_a_released_duty_is_free_at_once(store: PostgresLeaseStore) -> None:
    await store.acquire_or_renew("timer", "a", TTL)
    await store.release("timer", "a")

    assert await store.acquire_or_renew("timer", "b", TTL) is not None


async def test_only_its_holder_releases_a_duty(store: PostgresLeaseStore) -> None:
    await store.acquire_or_renew("timer", "a", TTL)
    await store.release("timer", "b")

    assert await store.acquire_or_renew("timer", "b", TTL) is None


async def test_r7_time_spent_waiting_for_a_lock_is_not_taken_from_the_grant(
    store: PostgresLeaseStore, database: Database
) -> None:
    await store.acquire_or_renew("timer", "a", TTL)
    await expire(database)
    holder, waited = await database.connect(), 0.3
    await holder.execute("BEGIN")
    await holder.execute("SELECT FROM leaders FOR UPDATE")
    rival = asyncio.create_task(store.acquire_or_renew("timer", "b", TTL))
    await wait_until_blocked(holder)
    await holder.execute("SELECT pg_sleep($1)", waited)
    await holder.execute("COMMIT")

    remaining = await rival

    assert remaining is not None
    assert remaining > TTL - waited


async def test_of_two_who_ask_at_once_one_leads(
    store: PostgresLeaseStore, database: Database
) -> None:
    await store.acquire_or_renew("timer", "gone", TTL)
    await expire(database)
    holder = await database.connect()
    await holder.execute("BEGIN")
    await holder.execute("SELECT FROM leaders FOR UPDATE")
    rivals = [asyncio.create_task(store.acquire_or_renew("timer", name, TTL)) for name in "ab"]
    await wait_until_blocked(holder, count=2)
    await holder.execute("COMMIT")

    grants = [await rival for rival in rivals]

    assert sum(grant is not None for grant in grants) == 1


async def test_an_answer_that_was_lost_is_asked_for_again(store: PostgresLeaseStore) -> None:
    with arm("store.acquire_leadership", "after", Raise()), pytest.raises(Unavailable):
        await store.acquire_or_renew("timer", "a", TTL)

    assert await store.acquire_or_renew("timer", "b", TTL) is None
    assert await store.acquire_or_renew("timer", "a", TTL) is not None
