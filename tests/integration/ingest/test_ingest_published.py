"""What a node publishes is read and awaited from outside while its run goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from perdure import Client, PerdureApiError, published
from perdure_contracts.v1 import run_pb2

VALUE = b'{"n": 18446744073709551616}'


async def test_a_wait_ends_when_the_value_is_published_and_the_run_goes_on(
    client: Client, rows: Any
) -> None:
    run_id = await rows.publishing_run()
    waiting = asyncio.create_task(client.wait_run(str(run_id), until="receipt"))
    states = client.watch_run(str(run_id))
    assert list((await anext(states)).published) == []
    await rows.step(run_id, 2, output=VALUE)
    await rows.change(run_id)
    run = await waiting
    assert published(run, "receipt") == VALUE
    assert run.status == run_pb2.RUN_STATUS_RUNNING
    (seen,) = (await anext(states)).published
    assert (seen.name, seen.node, seen.value) == ("receipt", "n2", b"")
    (read,) = (await client.get_run(str(run_id))).published
    assert (read.value, read.HasField("published_at")) == (VALUE, True)


async def test_what_was_published_before_is_there_at_once_also_to_a_known_revision(
    client: Client, rows: Any
) -> None:
    run_id = await rows.publishing_run()
    await rows.step(run_id, 2, output=VALUE)
    for _ in range(2):
        run = await client.wait_run(str(run_id), until="receipt")
        assert published(run, "receipt") == VALUE
    await rows.finish(run_id)
    assert published(await client.wait_run(str(run_id), until="receipt"), "receipt") == VALUE


async def test_a_run_that_ends_without_the_value_answers_so(client: Client, rows: Any) -> None:
    run_id = await rows.publishing_run()
    waiting = asyncio.create_task(client.wait_run(str(run_id), until="receipt"))
    await rows.finish(run_id)
    run = await waiting
    assert run.status == run_pb2.RUN_STATUS_COMPLETED
    assert published(run, "receipt") is None


async def test_a_name_that_no_node_publishes_is_refused_at_once(client: Client, rows: Any) -> None:
    run_id = await rows.publishing_run()
    with pytest.raises(PerdureApiError) as refused:
        await client.wait_run(str(run_id), until="recipe")
    assert refused.value.reason == "FIELD_INVALID"
    assert [field.field for field in refused.value.fields] == ["until"]
