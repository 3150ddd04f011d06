"""StartRun, CancelRun and PublishWorkflow: checked here, done by the coordinator."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import perdure.workflow as wf
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure import Client, PerdureApiError
from perdure_contracts.internal.v1.control_service_pb2 import PublishWorkflowResponse
from perdure_contracts.internal.v1.coordinator_service_pb2 import (
    CancelRunResult,
    CommandRunResult,
    RunCommand,
    StartRunResult,
)
from perdure_contracts.v1.run_service_pb2 import StartRunRequest, StartRunResponse
from perdure_runtime import fail_points
from perdure_runtime.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    PerdureError,
    Reason,
)
from perdure_runtime.rpc.errors import to_status
from perdure_testkit.fail_once import FailOnce

DOCUMENT = b"""
name: two_steps
nodes:
  first: {task: {handler: a}}
  second: {task: {handler: b}, needs: [first]}
"""


def refused(error: PerdureError) -> Status:
    return to_status(error)


async def test_a_start_reaches_the_coordinator_with_the_org_of_the_door(
    client: Client, coordinator: Any
) -> None:
    started = await client.start_run(
        "order", {"id": 7}, start_key="order-7", tags={"a": "b"}, priority=3, version=2
    )
    (item,) = coordinator.items
    assert (item.org, item.workflow, item.version) == ("default", "order", 2)
    assert item.input == b'{"id": 7}'
    assert (item.start_key, dict(item.tags), item.priority) == ("order-7", {"a": "b"}, 3)
    assert started.created


async def test_a_later_start_is_passed_on_as_it_was_asked(client: Client, coordinator: Any) -> None:
    instant = datetime(2030, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    await client.start_run("order", start_at=instant)
    await client.start_run("order", start_after=timedelta(minutes=5))
    await client.start_run("order", start_after=0.25)
    await client.start_run("order")
    at, later, soon, now = coordinator.items
    assert at.start_at.ToDatetime(UTC) == instant
    assert [item.start_after.ToMilliseconds() for item in (later, soon)] == [300_000, 250]
    assert not at.HasField("start_after")
    assert not now.HasField("start_at")
    assert not now.HasField("start_after")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"start_after": -1.0}, "start_after"),
        ({"start_after": 4e8}, "start_after"),
        ({"start_after": 1.0, "start_at": datetime(2030, 1, 1, tzinfo=UTC)}, "start_after"),
    ],
)
async def test_a_later_start_that_makes_no_sense_is_refused_by_field(
    client: Client, coordinator: Any, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("order", **asked)
    assert [one.field for one in caught.value.fields] == [field]
    assert coordinator.items == []


async def test_protocol_p7_a_caller_without_a_key_gets_one_for_ingests_own_repeats(
    client: Client, coordinator: Any
) -> None:
    """The answer is lost after the coordinator did its work; the repeat carries the same key."""
    request = StartRunRequest(workflow="order")
    with fail_points.arm("ingest.start_run", "after", FailOnce()):
        await client._transport.call(client._runs.StartRun, request)
    first, second = coordinator.items
    assert first.start_key == second.start_key
    assert first.start_key.startswith("call:")


async def test_starts_of_one_moment_share_a_call(client: Client, coordinator: Any) -> None:
    await asyncio.gather(*(client.start_run("order") for _ in range(30)))
    assert len(coordinator.items) == 30
    assert len(coordinator.batches) < 30


async def test_one_refused_item_does_not_fail_its_batch(client: Client, coordinator: Any) -> None:
    async def start(item: Any) -> StartRunResult:
        if item.workflow == "bad":
            return StartRunResult(
                error=refused(InvalidArgument("no", reason=Reason.PAYLOAD_INVALID))
            )
        return StartRunResult(run_id=str(uuid.uuid4()), workflow_version=1, created=True)

    coordinator.start = start
    answers: Sequence[StartRunResponse | BaseException] = await asyncio.gather(
        *(client.start_run(name) for name in ("good", "bad", "good")), return_exceptions=True
    )
    assert [isinstance(answer, PerdureApiError) for answer in answers] == [False, True, False]


async def test_f116_f118_another_request_under_a_key_is_told_the_first_run(
    client: Client, coordinator: Any
) -> None:
    first = str(uuid.uuid4())
    taken = AlreadyExists(
        "started before", reason=Reason.RUN_ALREADY_STARTED, metadata={"run_id": first}
    )

    async def start(item: Any) -> StartRunResult:
        return StartRunResult(error=refused(taken))

    coordinator.start = start
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("order", start_key="k")
    assert caught.value.reason == "RUN_ALREADY_STARTED"
    assert caught.value.metadata["run_id"] == first
    assert len(coordinator.items) == 1


async def test_an_item_that_lost_a_race_is_asked_again(client: Client, coordinator: Any) -> None:
    async def start(item: Any) -> StartRunResult:
        if len(coordinator.items) == 1:
            return StartRunResult(error=refused(Aborted("race", reason=Reason.RETRY)))
        return StartRunResult(run_id=str(uuid.uuid4()), workflow_version=1, created=True)

    coordinator.start = start
    await client.start_run("order", start_key="k")
    assert [item.start_key for item in coordinator.items] == ["k", "k"]


async def test_a_cancel_is_passed_on_and_a_closed_run_refuses_it(
    client: Client, coordinator: Any
) -> None:
    run_id = str(uuid.uuid4())
    assert (await client.cancel_run(run_id, "enough")).changed
    (item,) = coordinator.items
    assert (item.org, item.run_id, item.reason) == ("default", run_id, "enough")

    async def cancel(item: Any) -> CancelRunResult:
        return CancelRunResult(error=refused(FailedPrecondition("ended", reason=Reason.RUN_CLOSED)))

    coordinator.cancel = cancel
    with pytest.raises(PerdureApiError) as caught:
        await client.cancel_run(run_id)
    assert (caught.value.code, caught.value.reason) == ("FAILED_PRECONDITION", "RUN_CLOSED")


@pytest.mark.parametrize("name", ["terminate", "pause", "resume"])
async def test_a_command_is_passed_on_and_a_closed_run_refuses_it(
    client: Client, coordinator: Any, name: str
) -> None:
    run_id = str(uuid.uuid4())
    ask = getattr(client, f"{name}_run")
    assert await ask(run_id, "enough")
    (item,) = coordinator.items
    assert (item.org, item.run_id, item.reason) == ("default", run_id, "enough")
    assert RunCommand.Name(item.command) == f"RUN_COMMAND_{name.upper()}"

    async def command(item: Any) -> CommandRunResult:
        closed = FailedPrecondition("ended", reason=Reason.RUN_CLOSED)
        return CommandRunResult(error=refused(closed))

    coordinator.command = command
    with pytest.raises(PerdureApiError) as caught:
        await ask(run_id)
    assert (caught.value.code, caught.value.reason) == ("FAILED_PRECONDITION", "RUN_CLOSED")


async def test_publish_checks_the_document_and_passes_it_on_byte_for_byte(
    client: Client, coordinator: Any
) -> None:
    async def publish(request: Any) -> PublishWorkflowResponse:
        return PublishWorkflowResponse(
            name="two_steps", version=3, created=True, digest=bytes(32), published_at_us=1_500_000
        )

    coordinator.publish = publish
    answer = await client.publish_workflow(DOCUMENT)
    (request,) = coordinator.items
    assert (request.org, request.document) == ("default", DOCUMENT)
    assert (answer.workflow.name, answer.workflow.version, answer.created) == ("two_steps", 3, True)
    assert answer.workflow.published_at.ToMicroseconds() == 1_500_000


async def test_a_workflow_made_in_python_is_published_as_its_document(
    client: Client, coordinator: Any
) -> None:
    built = wf.Workflow("w", {wf.Node("a"): wf.Task("h")})
    await client.publish_workflow(built)
    (request,) = coordinator.items
    assert json.loads(request.document) == {"name": "w", "nodes": {"a": {"task": {"handler": "h"}}}}
    assert not (await client.validate_workflow(built)).problems


async def test_a_bad_document_is_refused_with_all_problems_and_never_sent(
    client: Client, coordinator: Any
) -> None:
    bad = b"name: x\nnodes: {a: {task: {handler: h}, lane: none}, b: {wait: 1s, needs: [zz]}}"
    with pytest.raises(PerdureApiError) as caught:
        await client.publish_workflow(bad)
    assert caught.value.reason == "DEFINITION_INVALID"
    assert len(caught.value.fields) >= 2
    assert coordinator.items == []


async def test_everything_wrong_with_a_start_is_said_at_once_and_nothing_is_sent(
    client: Client, coordinator: Any
) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("", b"{", start_key="call:mine", priority=1000)
    assert {each.field for each in caught.value.fields} == {
        "workflow",
        "input",
        "start_key",
        "priority",
    }
    assert coordinator.items == []


async def test_f091_a_request_beyond_the_transports_limit_is_a_size_and_is_not_repeated(
    client: Client, coordinator: Any
) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("order", b'"' + b"x" * 5_000_000 + b'"')
    assert caught.value.reason == "PAYLOAD_TOO_LARGE"
    assert coordinator.items == []
