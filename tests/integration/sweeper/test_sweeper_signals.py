"""What was stored and never told is told (p6, F021); what is over goes in bounded batches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest
from perdure_coordinator import answers
from perdure_runtime.election import Leadership
from perdure_runtime.fail_points import Raise, arm
from perdure_runtime.rpc.client import RpcClient
from perdure_sweeper import deliveries, upkeep
from perdure_sweeper.deliveries import Deliveries
from perdure_sweeper.upkeep import OldSignals
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

WAITS = "name: waits\nnodes: {a: {signal: {name: go, key: '${input.key}'}}}"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def sweep(
    database: Database, sweeper_client: RpcClient, leadership: Leadership
) -> Deliveries:
    return Deliveries(await database.open_pool("sweeper"), sweeper_client, leadership)


async def stored(
    calls: Calls, rows: asyncpg.Connection, *keys: str, ago: float = 60.0
) -> list[UUID]:
    """Runs that wait, each with its signal stored so long ago, and never told of it."""
    await calls.publish(WAITS)
    runs = [await calls.start("waits", input=f'{{"key": "{key}"}}'.encode()) for key in keys]
    for key in keys:
        with arm("store.commit_events", "before", Raise()):
            await calls.signal(calls.signal_item("go", key))
    await rows.execute("UPDATE signals SET received_at = received_at - $1 * interval '1 s'", ago)
    return runs


async def done(rows: asyncpg.Connection, runs: Sequence[UUID]) -> int:
    """Return how many of the runs have completed."""
    count: int = await rows.fetchval(
        "SELECT count(*) FROM runs WHERE run_id = ANY ($1::uuid[]) AND status = 'completed'", runs
    )
    return count


async def test_f021_signals_that_were_stored_and_never_told_are_told(
    calls: Calls, rows: asyncpg.Connection, sweep: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "PAGE", 2)
    runs = await stored(calls, rows, "a", "b", "c", "d", "e")

    assert (await sweep.run_once()).counts == {"delivered_signals": 5}

    assert await done(rows, runs) == 5
    assert (await sweep.run_once()).counts == {"delivered_signals": 0}


async def test_a_signal_of_this_moment_is_left_to_who_stored_it(
    calls: Calls, rows: asyncpg.Connection, sweep: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "GRACE_SECONDS", 3600.0)
    await stored(calls, rows, "a", ago=0.0)
    assert (await sweep.run_once()).counts == {"delivered_signals": 0}


async def test_f057_a_signal_that_cannot_be_told_hides_no_other(
    calls: Calls, rows: asyncpg.Connection, sweep: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = sorted(await stored(calls, rows, "a", "b"))
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.2)
    async with rows.transaction():
        await rows.execute("SELECT FROM runs WHERE run_id = $1 FOR UPDATE", runs[0])
        while await done(rows, runs) == 0:
            await sweep.run_once()
    while await done(rows, runs) < 2:
        await sweep.run_once()


async def test_who_does_not_lead_tells_and_deletes_nothing(
    calls: Calls,
    rows: asyncpg.Connection,
    database: Database,
    sweep: Deliveries,
    leadership: Leadership,
) -> None:
    runs = await stored(calls, rows, "a")
    leadership.trust_until(float("-inf"))
    assert (await sweep.run_once()).counts == {}
    assert (
        await OldSignals(await database.open_pool("sweeper"), leadership).run_once()
    ).counts == {}
    assert await done(rows, runs) == 0


async def test_signals_and_keys_that_are_over_go_in_bounded_batches(
    calls: Calls,
    rows: asyncpg.Connection,
    database: Database,
    leadership: Leadership,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "SIGNALS_AT_ONCE", 10)
    monkeypatch.setattr(upkeep, "KEYS_AT_ONCE", 10)
    await calls.publish(WAITS)
    await calls.start("waits", input=b'{"key": "held"}')
    await calls.signal(*[calls.signal_item("go", f"early-{n}") for n in range(25)])
    await rows.execute("UPDATE signals SET expires_at = clock_timestamp() - interval '1 s'")
    await calls.signal(calls.signal_item("go", "young"))
    await rows.execute("UPDATE correlation_keys SET touched_at = touched_at - interval '1 year'")
    old = OldSignals(await database.open_pool("sweeper"), leadership)

    passes = [await old.run_once() for _ in range(4)]

    assert [one.counts["signals_dropped"] for one in passes] == [10, 10, 5, 0]
    assert [one.more for one in passes][-1] is False
    assert await rows.fetchval("SELECT count(*) FROM signals") == 1
    left = await rows.fetch("SELECT correlation_key FROM correlation_keys WHERE run_id IS NOT NULL")
    assert [row[0] for row in left] == ["held"]
