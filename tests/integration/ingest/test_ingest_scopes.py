"""Sub-graphs at the doors: how far a step has come, its scopes in order, the steps of one."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from perdure import Client, PerdureApiError
from perdure_contracts.v1.run_service_pb2 import ListScopesRequest
from perdure_machine.node_error import encode_error
from perdure_machine.view import NodeError

ITEMS = 5


@pytest.fixture
async def fan(rows: Any) -> uuid.UUID:
    """An ended run whose step 1 had five items: one failed, the last two never ended."""
    run_id: uuid.UUID = await rows.run()
    await rows.step(run_id, 1, node="batch")
    await rows.step(run_id, 2, node="work", scope="batch[0]", output=b'"inner"')
    await rows.connection.execute(
        "INSERT INTO blocks (run_id, step, generation, total, at_once, made, begun, ended, failed)"
        " VALUES ($1, 1, 0, 5, 2, 5, 4, 3, 1)",
        run_id,
    )
    error = encode_error(NodeError("permanent", "BROKEN", "it broke", None, "work"))
    await rows.connection.execute(
        """
        INSERT INTO scopes (run_id, scope, generation, owner, index, status, item, output, error)
        SELECT $1, 'batch[' || place || ']', 0, 1, place,
               (ARRAY['completed', 'failed', 'completed', 'running', 'pending'])[place + 1]
                   ::scope_status,
               convert_to(place::text, 'UTF8'),
               CASE WHEN place IN (0, 2) THEN '1e1'::bytea END,
               CASE WHEN place = 1 THEN $2::bytea END
          FROM generate_series(0, 4) AS place
        """,
        run_id,
        error,
    )
    return run_id


async def test_a_run_shows_the_steps_of_the_top_and_how_far_its_loops_have_come(
    client: Client, fan: uuid.UUID
) -> None:
    run = await client.get_run(str(fan))
    (step,) = run.steps
    counts = step.progress
    assert (counts.total, counts.begun, counts.ended, counts.failed) == (ITEMS, 4, 3, 1)


async def test_a_run_shows_the_steps_of_the_scope_that_is_asked_for(
    client: Client, fan: uuid.UUID
) -> None:
    run = await client.get_run(str(fan), scope="batch[0]")
    assert [(step.node, step.output) for step in run.steps] == [("work", b'"inner"')]
    assert list((await client.get_run(str(fan), scope="batch[9]")).steps) == []


async def test_r12_the_scopes_of_a_step_come_in_order_byte_for_byte(
    client: Client, fan: uuid.UUID
) -> None:
    found = [scope async for scope in client.list_scopes(str(fan), 1)]
    assert [(one.path, one.index) for one in found] == [(f"batch[{n}]", n) for n in range(ITEMS)]
    assert [one.item for one in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert [one.output for one in found] == [b"1e1", b"", b"1e1", b"", b""]
    assert [one.status for one in found] == [
        "completed", "failed", "completed", "cancelled", "cancelled",
    ]  # fmt: skip
    assert found[1].error.code == "BROKEN"


async def test_scopes_are_paged_without_a_gap(client: Client, fan: uuid.UUID) -> None:
    request = ListScopesRequest(run_id=str(fan), step=1, page_size=2)
    pages = []
    while True:
        page = await client._transport.call(client._runs.ListScopes, request)
        pages.append([scope.index for scope in page.scopes])
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert pages == [[0, 1], [2, 3], [4]]


async def test_a_step_that_holds_nothing_has_no_scopes(client: Client, fan: uuid.UUID) -> None:
    assert [scope async for scope in client.list_scopes(str(fan), 2)] == []


async def test_the_scopes_of_another_orgs_run_do_not_exist(client: Client, rows: Any) -> None:
    await rows.connection.execute("INSERT INTO orgs (org) VALUES ('other')")
    run_id = str(await rows.run(org="other"))
    with pytest.raises(PerdureApiError) as caught:
        await anext(client.list_scopes(run_id, 1))
    assert caught.value.reason == "RUN_NOT_FOUND"
