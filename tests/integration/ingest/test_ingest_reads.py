"""GetRun, GetRunHistory and the reads of workflows: what is stored comes back as it is."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from perdure import Client, PerdureApiError
from perdure_contracts.v1 import run_pb2
from perdure_contracts.v1.run_service_pb2 import GetRunHistoryRequest, GetRunRequest
from perdure_machine.node_error import encode_error
from perdure_machine.view import NodeError

BIG = b'{"id": 1970670598291982290, "n": 18446744073709551616, "z": 1, "a": "\\u0000\\ud800"}'


async def test_r12_f103_payloads_come_back_byte_for_byte(client: Client, rows: Any) -> None:
    run_id = await rows.run(run_input=BIG, output=BIG)
    await rows.step(run_id, input=BIG, output=BIG)
    run = await client.get_run(str(run_id))
    assert run.input == run.output == run.steps[0].input == run.steps[0].output == BIG


async def test_a_whole_run_is_read_with_steps_attempts_effects_and_timers(
    client: Client, rows: Any
) -> None:
    details = b'{"n": 18446744073709551616}'
    error = encode_error(NodeError("retryable", "TIMEOUT", "slow", details, "n1"))
    run_id = await rows.waiting_run()
    now = await rows.now()
    await rows.step(run_id, 2, status="failed", failures=2, losses=1, fence=3, error=error)
    await rows.connection.execute(
        "INSERT INTO attempts (run_id, step, fence, lease_id, worker, outcome, error, started_at, "
        "ended_at) VALUES ($1, 2, 1, $2, 'w-1', 'timed_out', $3, $4, $4)",
        run_id,
        uuid.uuid4(),
        error,
        now,
    )
    await rows.connection.execute(
        "INSERT INTO effects (run_id, key, org, step, kind, status, fence, calls, begun_at) "
        "VALUES ($1, 'k', 'default', 2, 'provider', 'refused', 1, 2, $2)",
        run_id,
        now,
    )
    run = await client.get_run(str(run_id))
    waiting, failed = run.steps
    assert run.status == run_pb2.RUN_STATUS_RUNNING
    assert waiting.status == run_pb2.STEP_STATUS_WAITING
    assert waiting.due_at.ToDatetime() > waiting.created_at.ToDatetime()
    assert (waiting.queue, failed.queue) == ("", "io:shared")
    assert (failed.attempt, failed.failures, failed.losses, failed.fence) == (3, 2, 1, 3)
    assert getattr(failed.error, "class") == "retryable"
    assert (failed.error.code, failed.error.details) == ("TIMEOUT", details)
    assert [attempt.outcome for attempt in failed.attempts] == ["timed_out"]
    assert [(effect.key, effect.calls) for effect in run.effects] == [("k", 2)]


async def test_a_run_of_another_org_does_not_exist(client: Client, rows: Any) -> None:
    await rows.connection.execute("INSERT INTO orgs (org) VALUES ('other')")
    run_id = str(await rows.run(org="other"))
    for call in (client.get_run(run_id), anext(client.history(run_id)), client.wait_run(run_id)):
        with pytest.raises(PerdureApiError) as caught:
            await call
        assert (caught.value.code, caught.value.reason) == ("NOT_FOUND", "RUN_NOT_FOUND")
    assert [run async for run in client.list_runs()] == []


async def test_protocol_p7_a_key_that_ingest_made_is_not_shown(client: Client, rows: Any) -> None:
    given = await rows.run(start_key="order-7")
    made = await rows.run(start_key=f"call:{uuid.uuid4()}")
    assert (await client.get_run(str(given))).start_key == "order-7"
    assert (await client.get_run(str(made))).start_key == ""


async def test_f056_an_empty_or_malformed_run_id_is_refused_at_the_door(client: Client) -> None:
    for run_id in ("", "not-a-uuid", "{01234567-89ab-cdef-0123-456789abcdef}", "0" * 32):
        with pytest.raises(PerdureApiError) as caught:
            await client._transport.call(client._runs.GetRun, GetRunRequest(run_id=run_id))
        assert [each.field for each in caught.value.fields] == ["run_id"]


async def test_f091_payloads_that_fit_no_message_are_a_named_error_and_the_run_stays_visible(
    client: Client, rows: Any
) -> None:
    large = b'"' + b"x" * 900_000 + b'"'
    run_id = str(await rows.run())
    for step in range(1, 6):
        await rows.step(uuid.UUID(run_id), step, output=large)
    with pytest.raises(PerdureApiError) as caught:
        await client.get_run(run_id)
    assert caught.value.reason == "PAYLOAD_TOO_LARGE"
    assert int(caught.value.metadata["size"]) > int(caught.value.metadata["limit"])
    seen = await client.wait_run(run_id)
    assert [step.output for step in seen.steps] == [b""] * 5


async def test_history_is_paged_and_speaks_in_words(client: Client, rows: Any) -> None:
    run_id = await rows.waiting_run()
    await rows.history(run_id, 1203)
    events = [event async for event in client.history(str(run_id))]
    assert [event.seq for event in events] == list(range(1, 1204))
    assert {event.text for event in events} == {"`pause` waits for a worker"}
    assert events[0].node == "pause"


async def test_a_page_token_of_another_run_is_refused(client: Client, rows: Any) -> None:
    first, second = await rows.run(), await rows.run()
    await rows.history(first, 3)
    request = GetRunHistoryRequest(run_id=str(first), page_size=2)
    page = await client._transport.call(client._runs.GetRunHistory, request)
    request = GetRunHistoryRequest(run_id=str(second), page_token=page.next_page_token)
    with pytest.raises(PerdureApiError) as caught:
        await client._transport.call(client._runs.GetRunHistory, request)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


async def test_workflows_are_read_by_name_version_and_latest(client: Client, rows: Any) -> None:
    for name, version in (("b", 1), ("a", 1), ("a", 2)):
        await rows.workflow(name, version)
    listed = [each async for each in client.list_workflows()]
    assert [(each.name, each.version, each.document) for each in listed] == [
        ("a", 2, b""),
        ("b", 1, b""),
    ]
    versions = [each.version async for each in client.list_workflows("a")]
    assert versions == [2, 1]
    assert (await client.get_workflow("a")).document == b"name: a # 2"
    assert (await client.get_workflow("a", 1)).document == b"name: a # 1"
    with pytest.raises(PerdureApiError) as caught:
        await client.get_workflow("a", 3)
    assert caught.value.reason == "WORKFLOW_NOT_FOUND"


async def test_validate_answers_with_problems_and_stores_nothing(
    client: Client, coordinator: Any
) -> None:
    good = await client.validate_workflow("name: w\nnodes: {a: {task: {handler: h}}}")
    bad = await client.validate_workflow("name: w\nnodes: {a: {task: {handler: h}, lane: none}}")
    assert list(good.problems) == []
    assert [problem.path for problem in bad.problems] == ["nodes.a.lane"]
    assert coordinator.items == []
