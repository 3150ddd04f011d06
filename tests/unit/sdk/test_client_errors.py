"""What a client's caller is told: rich statuses read, "not now" repeated, nothing else."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from perdure import Client, PerdureApiError, PerdureUnavailable
from perdure.client_transport import FIRST_PAUSE, LONGEST_PAUSE, pause_before
from perdure.errors import STATUS_DETAILS_KEY, FieldProblem
from perdure.start_keys import OWN_KEY_PREFIX
from perdure_contracts.v1.run_service_pb2 import StartRunRequest, StartRunResponse
from perdure_stack.ports import free_ports

Fail = tuple[grpc.StatusCode, str, list[Any]]


class ScriptedIngest:
    """Answers StartRun with the failures that it is given, in order, then with a run."""

    def __init__(self) -> None:
        self.failures: list[Fail] = []
        self.requests: list[StartRunRequest] = []
        self.port = 0

    async def start_run(self, request: StartRunRequest, context: Any) -> StartRunResponse:
        self.requests.append(request)
        if not self.failures:
            return StartRunResponse(run_id=str(uuid.uuid4()))
        code, message, details = self.failures.pop(0)
        status = status_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            status.details.add().Pack(detail)
        if details:
            context.set_trailing_metadata(((STATUS_DETAILS_KEY, status.SerializeToString()),))
        context.set_code(code)
        context.set_details(message)
        return StartRunResponse()


@pytest.fixture
async def ingest() -> AsyncIterator[ScriptedIngest]:
    scripted = ScriptedIngest()
    handler = grpc.unary_unary_rpc_method_handler(
        scripted.start_run,
        request_deserializer=StartRunRequest.FromString,
        response_serializer=StartRunResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("perdure.v1.RunService", {"StartRun": handler}),)
    )
    scripted.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield scripted
    await server.stop(None)


@pytest.fixture
async def client(ingest: ScriptedIngest) -> AsyncIterator[Client]:
    async with Client(f"127.0.0.1:{ingest.port}", attempts=3) as connected:
        yield connected


def info(reason: str, **metadata: str) -> Any:
    return error_details_pb2.ErrorInfo(reason=reason, domain="perdure.dev", metadata=metadata)


def retry_in(seconds: float) -> Any:
    delay = Duration(nanos=int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def bad(*fields: str) -> Any:
    return error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=name, description="is wrong")
            for name in fields
        ]
    )


async def test_a_rich_status_becomes_attributes(client: Client, ingest: ScriptedIngest) -> None:
    details = [info("FIELD_INVALID", a="b"), bad("workflow", "input"), retry_in(0.5)]
    ingest.failures = [(grpc.StatusCode.INVALID_ARGUMENT, "two problems", details)]
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("w")
    error = caught.value
    assert (error.code, error.reason, error.message) == (
        "INVALID_ARGUMENT",
        "FIELD_INVALID",
        "two problems",
    )
    assert error.fields == (
        FieldProblem("workflow", "is wrong"),
        FieldProblem("input", "is wrong"),
    )
    assert (dict(error.metadata), error.retry_after) == ({"a": "b"}, 0.5)
    assert not isinstance(error, PerdureUnavailable)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    ],
)
async def test_only_not_now_is_repeated(
    client: Client, ingest: ScriptedIngest, code: grpc.StatusCode
) -> None:
    ingest.failures = [(code, "no", [])]
    with pytest.raises(PerdureApiError) as caught:
        await client.start_run("w")
    assert caught.value.reason == code.name
    assert len(ingest.requests) == 1


async def test_protocol_p7_repeats_of_a_start_carry_one_key_that_the_client_made(
    client: Client, ingest: ScriptedIngest
) -> None:
    draining = (grpc.StatusCode.UNAVAILABLE, "draining", [info("DRAINING"), retry_in(0.001)])
    ingest.failures = [draining, draining]
    await client.start_run("w")
    keys = {request.start_key for request in ingest.requests}
    assert len(ingest.requests) == 3
    assert len(keys) == 1
    assert uuid.UUID(keys.pop().removeprefix(OWN_KEY_PREFIX)).version == 4


async def test_repeats_end_with_the_number_of_attempts(
    client: Client, ingest: ScriptedIngest
) -> None:
    ingest.failures = [(grpc.StatusCode.UNAVAILABLE, "down", [info("STORE_UNAVAILABLE")])] * 9
    with pytest.raises(PerdureUnavailable) as caught:
        await client.start_run("w")
    assert caught.value.reason == "STORE_UNAVAILABLE"
    assert len(ingest.requests) == 3


async def test_a_wait_beyond_the_deadline_is_not_begun(ingest: ScriptedIngest) -> None:
    later = [
        info("STORE_UNAVAILABLE"),
        error_details_pb2.RetryInfo(retry_delay=Duration(seconds=99)),
    ]
    ingest.failures = [(grpc.StatusCode.UNAVAILABLE, "later", later)]
    async with Client(f"127.0.0.1:{ingest.port}", timeout=5.0) as client:
        with pytest.raises(PerdureUnavailable) as caught:
            await client.start_run("w")
    assert caught.value.retry_after == 99.0


def test_a_client_may_be_made_before_its_event_loop_runs() -> None:
    (port,) = free_ports(1)
    client = Client(f"127.0.0.1:{port}", attempts=1)

    async def use() -> None:
        async with client:
            await client.get_run("x")

    with pytest.raises(PerdureUnavailable):
        asyncio.run(use())


async def test_nobody_there_has_a_reason_of_its_own() -> None:
    (port,) = free_ports(1)
    async with Client(f"127.0.0.1:{port}", attempts=2) as client:
        with pytest.raises(PerdureUnavailable) as caught:
            await client.get_run("x")
    assert caught.value.reason == "NOT_REACHED"


def test_pauses_grow_to_a_ceiling_and_a_server_may_ask_for_more() -> None:
    for failures in range(1, 40):
        assert 0 <= pause_before(failures, None) <= LONGEST_PAUSE
    assert pause_before(1, None) <= FIRST_PAUSE
    assert 7.5 <= pause_before(1, 7.5) <= 7.5 + FIRST_PAUSE
