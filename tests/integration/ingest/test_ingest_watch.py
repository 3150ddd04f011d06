"""WatchRun: the state at once, each change, the end; one query for all watchers (p12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest
from perdure import Client, PerdureApiError
from perdure_contracts.v1 import run_pb2
from perdure_contracts.v1.run_service_pb2 import WatchRunRequest
from perdure_ingest.app import RUNS_CHANNEL, Ingest
from perdure_ingest.watch.watcher import RunWatcher
from perdure_testkit.waiting import eventually


def watch(client: Client, run_id: Any, after: int = 0) -> AsyncGenerator[Any, None]:
    request = WatchRunRequest(run_id=str(run_id), after_revision=after)
    return client._transport.stream(client._runs.WatchRun, request)


async def test_a_watch_gets_the_state_its_changes_and_the_end(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run()
    states = watch(client, run_id)
    assert (await anext(states)).run.revision == 1
    await rows.change(run_id)
    assert (await anext(states)).run.revision == 2
    await rows.finish(run_id)
    last = (await anext(states)).run
    assert (last.revision, last.status) == (3, run_pb2.RUN_STATUS_COMPLETED)
    assert [state async for state in states] == []


async def test_a_watch_of_an_ended_run_says_so_and_ends(client: Client, rows: Any) -> None:
    run_id = await rows.run()
    assert [state.run.status async for state in watch(client, run_id)] == [
        run_pb2.RUN_STATUS_COMPLETED
    ]
    assert [state async for state in watch(client, run_id, after=1)] == []


async def test_a_known_revision_is_not_sent_again(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run()
    states = watch(client, run_id, after=1)
    first = asyncio.ensure_future(anext(states))
    await rows.change(run_id)
    assert (await first).run.revision == 2
    await rows.finish(run_id)
    assert (await anext(states)).run.revision == 3


async def test_many_watches_of_many_runs_are_asked_for_in_one_query(
    ingest: Ingest, rows: Any
) -> None:
    watcher = RunWatcher(ingest.pool, limit=10, poll_seconds=60.0)
    runs = [await rows.waiting_run() for _ in range(3)]
    with (
        watcher.watch("default", runs[0], 1) as first,
        watcher.watch("default", runs[0], 0) as same,
        watcher.watch("default", runs[1], 1) as second,
        watcher.watch("other", runs[2], 0) as foreign,
    ):
        await rows.change(runs[0])
        assert (await watcher.run_once()).counts == {"watched": 3, "changed": 1}
        news = [await each.next(0) for each in (first, same, second, foreign)]
    assert [state.run.revision if state else None for state in news] == [2, 2, None, None]


@pytest.mark.parametrize("config_changes", [{"watch_poll_seconds": 60.0}])
async def test_the_coordinators_wake_up_brings_a_change_without_polling(
    client: Client, rows: Any
) -> None:
    run_id = await rows.waiting_run()
    states = watch(client, run_id)
    await anext(states)
    await rows.change(run_id)
    await rows.connection.execute(f"NOTIFY {RUNS_CHANNEL}")
    async with asyncio.timeout(20):
        assert (await anext(states)).run.revision == 2


async def test_a_drain_ends_streams_politely(client: Client, ingest: Ingest, rows: Any) -> None:
    run_id = await rows.waiting_run()
    states = watch(client, run_id)
    await anext(states)
    await ingest.drain()
    assert [state async for state in states] == []


@pytest.mark.parametrize("config_changes", [{"watch_limit": 1}])
async def test_more_streams_than_the_limit_are_refused_with_a_wait(
    client: Client, rows: Any
) -> None:
    run_id = await rows.waiting_run()
    first = watch(client, run_id)
    await anext(first)
    with pytest.raises(PerdureApiError) as caught:
        await anext(watch(client, run_id))
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert caught.value.retry_after


@pytest.mark.parametrize("config_changes", [{"watch_seconds": 1.0}])
async def test_a_stream_that_was_long_enough_ends_and_a_wait_goes_on(
    client: Client, rows: Any
) -> None:
    run_id = await rows.waiting_run()
    assert [state.run.revision async for state in watch(client, run_id)] == [1]
    ended = asyncio.create_task(client.wait_run(str(run_id)))
    assert [state async for state in watch(client, run_id, after=1)] == []
    await rows.finish(run_id)
    assert (await ended).status == run_pb2.RUN_STATUS_COMPLETED


async def test_a_watch_survives_the_loss_of_its_server(
    client: Client, ingest: Ingest, rows: Any
) -> None:
    run_id = await rows.waiting_run()
    changes = client.watch_run(str(run_id))
    await anext(changes)
    with suppress(TimeoutError):
        # Cancelled it ends at once; else it would wait for the watch.
        async with asyncio.timeout(0.1):
            await ingest.server.stop()
    await ingest.server.stop()
    await rows.finish(run_id)
    following = asyncio.ensure_future(anext(changes))
    await ingest.server.start()
    assert (await following).status == run_pb2.RUN_STATUS_COMPLETED


@pytest.mark.parametrize("config_changes", [{"watch_limit": 1}])
async def test_a_stream_whose_client_left_frees_its_place(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run()
    first = watch(client, run_id)
    await anext(first)
    await first.aclose()

    async def has_place() -> bool:
        try:
            return bool(await anext(watch(client, run_id)))
        except PerdureApiError:
            return False

    await eventually(has_place, what="a place for another stream")
