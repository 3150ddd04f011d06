"""ListRuns: newest first, filtered, paged by key; tokens good for one query only."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from perdure import Client, PerdureApiError, RunStatus
from perdure_contracts.v1.run_service_pb2 import ListRunsRequest, ListRunsResponse


async def listed(client: Client, **filters: Any) -> list[str]:
    return [run.run_id async for run in client.list_runs(**filters)]


async def page(client: Client, **request: Any) -> ListRunsResponse:
    return await client._transport.call(client._runs.ListRuns, ListRunsRequest(**request))


async def test_runs_come_newest_first_over_months_and_pages(client: Client, rows: Any) -> None:
    now = await rows.now()
    made = [await rows.run(created_at=now + timedelta(days=8 * n)) for n in range(5)]
    expected = [str(run_id) for run_id in reversed(made)]
    assert await listed(client, page_size=2) == expected
    assert await listed(client) == expected


async def test_a_run_made_between_two_pages_neither_repeats_nor_hides_one(
    client: Client, rows: Any
) -> None:
    first, second = await rows.run(), await rows.run()
    newest = await page(client, page_size=1)
    await rows.run()
    rest = await page(client, page_size=5, page_token=newest.next_page_token)
    assert [newest.runs[0].run_id, rest.runs[0].run_id] == [str(second), str(first)]
    assert rest.next_page_token == ""


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"workflow": "b"}, ["b"]),
        ({"status": RunStatus.RUN_STATUS_FAILED}, ["a"]),
        ({"tags": {"x": "1"}}, ["b", "a"]),
        ({"tags": {"x": "1", "y": "2"}}, ["b"]),
        ({"tags": {"x": "2"}}, []),
        ({"workflow": "a", "tags": {"y": "2"}}, []),
    ],
)
async def test_filters_are_all_of_them(
    client: Client, rows: Any, filters: dict[str, Any], expected: list[str]
) -> None:
    by_name = {
        "a": await rows.run(workflow="a", status="failed", tags={"x": "1"}),
        "b": await rows.run(workflow="b", tags={"x": "1", "y": "2"}),
    }
    # Of runs that were made in one millisecond the ids tell no order but their own.
    newest_first = sorted((str(by_name[name]) for name in expected), reverse=True)
    assert await listed(client, **filters) == newest_first


@pytest.mark.breaks_r10("rows are made in bulk, without a word of what the machine would write")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"paused": True}, ["held"]),
        ({"paused": False}, ["undoing", "undone"]),
        ({"compensating": True}, ["undoing"]),
        ({"compensating": False}, ["held", "undone"]),
        ({"compensating": True, "paused": True}, []),
        ({"paused": None, "compensating": None}, ["held", "undoing", "undone"]),
    ],
)
async def test_paused_and_compensating_runs_are_found_by_what_they_are(
    client: Client, rows: Any, filters: dict[str, Any], expected: list[str]
) -> None:
    by_name = {
        "held": await rows.run(status="running"),
        "undoing": await rows.run(status="running"),
        "undone": await rows.run(status="failed"),
    }
    execute = rows.connection.execute
    await execute("UPDATE runs SET paused = true WHERE run_id = $1", by_name["held"])
    ending = "UPDATE runs SET ending = 'failed' WHERE run_id = ANY ($1)"
    await execute(ending, [by_name["undoing"], by_name["undone"]])
    # Of runs that were made in one millisecond the ids tell no order but their own.
    newest_first = sorted((str(by_name[name]) for name in expected), reverse=True)
    assert await listed(client, **filters) == newest_first


async def test_bounds_of_creation_are_exact_and_half_open(client: Client, rows: Any) -> None:
    now = await rows.now()
    day = timedelta(days=1)
    run_ids = [str(await rows.run(created_at=now + day * n)) for n in range(3)]
    assert await listed(client, created_from=now + day) == [run_ids[2], run_ids[1]]
    assert await listed(client, created_before=now + day) == [run_ids[0]]
    assert await listed(client, created_from=now + day, created_before=now + 2 * day) == [
        run_ids[1]
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"workflow": "other"},
        {"tags": {"x": "1"}},
        {"created_before": True},
        {"paused": False},
        {"compensating": False},
        {"token": True},
    ],
)
async def test_a_token_is_good_for_its_own_query_only(
    client: Client, rows: Any, change: dict[str, Any]
) -> None:
    await rows.run()
    await rows.run()
    token = (await page(client, page_size=1)).next_page_token
    if change.pop("token", False):
        token = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    request = ListRunsRequest(page_token=token)
    if change.pop("created_before", False):
        request.created_before.FromDatetime(await rows.now() + timedelta(days=1))
    request.MergeFrom(ListRunsRequest(**change))
    with pytest.raises(PerdureApiError) as caught:
        await client._transport.call(client._runs.ListRuns, request)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


async def test_f091_a_page_ends_before_it_outgrows_a_message(client: Client, rows: Any) -> None:
    tags = {f"{n:02}" + "k" * 58: "\N{SNOWMAN}" * 200 for n in range(20)}
    for _ in range(200):
        await rows.run(tags=tags)
    first = await page(client, page_size=1000)
    assert 0 < len(first.runs) < 200
    assert first.ByteSize() < 3_000_000
    assert len(await listed(client, page_size=1000)) == 200


async def test_the_children_of_a_run_are_listed_and_no_others(client: Client, rows: Any) -> None:
    parent = await rows.run()
    children = [await rows.run(parent=(parent, step)) for step in (1, 2)]
    await rows.run(parent=(children[0], 1))
    expected = [str(run_id) for run_id in reversed(children)]
    assert await listed(client, parent_run_id=str(parent), page_size=1) == expected
    newest = await page(client, parent_run_id=str(parent), page_size=1)
    with pytest.raises(PerdureApiError) as caught:
        await page(client, parent_run_id=str(children[0]), page_token=newest.next_page_token)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


async def test_the_children_of_what_is_no_run_id_are_refused(client: Client) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await listed(client, parent_run_id="mine")
    assert caught.value.reason == "FIELD_INVALID"
