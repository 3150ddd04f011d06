"""p11: a run is found in its own month's partition, whichever it is."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_store.apply.run_ids import RunIds
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

MONTH_MS = 32 * 86_400_000
CHAIN = """
name: chain
nodes: {a: {task: {handler: h}}, b: {needs: [a], wait: 1h}, c: {needs: [b], task: {handler: g}}}
"""


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make run ids of a later month."""
    make = RunIds.next
    monkeypatch.setattr(RunIds, "next", lambda ids: UUID(int=make(ids).int + (MONTH_MS << 80)))


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def places(rows: asyncpg.Connection, run: UUID) -> set[str]:
    """Return the months in whose partitions the run's rows stand."""
    found = await rows.fetch(
        "SELECT tableoid::regclass::text AS place FROM runs WHERE run_id = $1"
        " UNION SELECT tableoid::regclass::text FROM steps WHERE run_id = $1"
        " UNION SELECT tableoid::regclass::text FROM history WHERE run_id = $1"
        " UNION SELECT tableoid::regclass::text FROM attempts WHERE run_id = $1",
        run,
    )
    return {row["place"].rpartition("_")[2] for row in found}


async def live(calls: Calls, rows: asyncpg.Connection, run: UUID) -> None:
    """Take a run through every kind of event."""
    first = (await calls.grant(run)).lease
    assert await calls.release(first) == [hot.ITEM_STATUS_APPLIED]
    second = (await calls.grant(run)).lease
    assert (await calls.renew(second))[0].status == hot.RENEW_STATUS_RENEWED
    assert (await calls.succeed(second)).status == hot.ITEM_STATUS_APPLIED
    timer = await rows.fetchval(
        "UPDATE timers SET due_at = now(), next_try = now() WHERE run_id = $1 RETURNING timer_id",
        run,
    )
    fired = await calls.fire(hot.TimerRef(timer_id=timer, run_id=str(run), org="default"))
    assert fired[0].status == hot.ITEM_STATUS_APPLIED
    last = (await calls.grant(run, step=3)).lease
    assert (await calls.succeed(last)).status == hot.ITEM_STATUS_APPLIED


async def test_p11_a_run_of_a_later_month_lives_as_any_other(
    calls: Calls, rows: asyncpg.Connection, ahead: None
) -> None:
    await calls.publish(CHAIN)
    run = await calls.start("chain", start_key="k")

    await live(calls, rows, run)

    month = await rows.fetchval(
        "SELECT to_char(max(month), 'YYYYMM') FROM months WHERE uuid7_floor(month) <= $1", run
    )
    assert month != await rows.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')")
    assert await places(rows, run) == {month}
    status = await rows.fetchval("SELECT status::text FROM runs WHERE run_id = $1", run)
    assert status == "completed"


async def test_p11_one_batch_takes_runs_of_several_months(
    calls: Calls, rows: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [await calls.start()]
    make = RunIds.next
    monkeypatch.setattr(RunIds, "next", lambda ids: UUID(int=make(ids).int + (MONTH_MS << 80)))
    runs.append(await calls.start())

    grants = [result.grant.lease for result in await calls.acquire(*runs)]
    renewed = await calls.renew(*grants)
    reported = await calls.report(*(hot.ReportResultItem(lease=lease) for lease in grants))

    assert [one.status for one in renewed] == [hot.RENEW_STATUS_RENEWED] * 2
    assert [one.status for one in reported] == [hot.ITEM_STATUS_APPLIED] * 2
    assert not await places(rows, runs[0]) & await places(rows, runs[1])


@pytest.mark.parametrize("tags", [{}, {"customer": "7"}])
async def test_f107_a_start_in_a_month_without_tables_may_be_sent_again(
    calls: Calls, rows: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, tags: dict[str, str]
) -> None:
    await calls.publish(CHAIN)
    make = RunIds.next
    year = 12 * MONTH_MS << 80
    monkeypatch.setattr(RunIds, "next", lambda ids: UUID(int=make(ids).int + year))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calls.start("chain", start_key="k", tags=tags)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    monkeypatch.setattr(RunIds, "next", make)
    await calls.start("chain", start_key="k", tags=tags)
    assert await rows.fetchval("SELECT count(*) FROM runs") == 1
