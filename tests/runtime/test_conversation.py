"""Calls over a stream that stays open are as good as calls of their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1.coordinator_service_pb2_grpc import (
    CoordinatorServiceServicer,
    CoordinatorServiceStub,
    add_CoordinatorServiceServicer_to_server,
)
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_runtime.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
    Unimplemented,
)
from perdure_runtime.fail_points import Registry
from perdure_runtime.rpc import conversation, conversing
from perdure_runtime.rpc.client import RETRIES, RpcClient, open_client
from perdure_runtime.rpc.conversing import Conversing
from perdure_runtime.rpc.server import RpcServer, ServerSettings
from perdure_testkit.waiting import eventually

SERVICE = "perdure.internal.v1.CoordinatorService"
POINT = Registry().declare("test.call")


class Service(CoordinatorServiceServicer):
    """Answers RenewLease as a test says; refuses streams if it `is_old`, and
    breaks the first `breaks` of them."""

    def __init__(self, *, is_old: bool = False, breaks: int = 0) -> None:
        self.draining = asyncio.Event()
        self.answer: Callable[[pb.RenewLeaseRequest], Awaitable[pb.RenewLeaseResponse]] = repeat
        self.streams = 0
        self.is_brief = False  # whether a stream ends after its first answer
        self.calls = 0
        self.at_once = self.most_at_once = 0
        self._is_old = is_old
        self._breaks = breaks
        service = pb.DESCRIPTOR.services_by_name["CoordinatorService"]
        self._conversing = Conversing(self, service, self.draining)

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Any) -> Any:
        self.calls += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.answer(request)
        finally:
            self.at_once -= 1

    async def Converse(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        if self._is_old:
            raise Unimplemented("no such method", reason=Reason.METHOD_UNKNOWN)
        if self._breaks:
            self._breaks -= 1
            raise RuntimeError("the stream breaks")
        self.streams += 1
        async for answer in self._conversing.serve(requests, context):
            yield answer
            if self.is_brief:
                return


def made(*, is_old: bool = False, breaks: int = 0) -> Service:
    """Return a service, of whose methods one is called."""
    return Service(is_old=is_old, breaks=breaks)  # type: ignore[abstract]


async def repeat(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
    """Answer with what tells the request: as many milliseconds as its step's number."""
    results = [pb.RenewLeaseResult(lease_ms=lease.step) for lease in request.leases]
    return pb.RenewLeaseResponse(results=results)


class Place:
    """Where servers listen and clients call."""

    def __init__(self, path: Path, stack: AsyncExitStack) -> None:
        self._address = f"unix:{path}/grpc"
        self._stack = stack

    async def serve(self, service: Service, grace: float = 2.0) -> RpcServer:
        """Start a server that stops with the test."""
        server = RpcServer(
            {SERVICE: lambda to: add_CoordinatorServiceServicer_to_server(service, to)},
            ServerSettings(self._address, reflection=False, grace=grace),
            draining=service.draining,
        )
        await server.start()
        self._stack.push_async_callback(server.stop)
        return server

    def client(self) -> RpcClient:
        """Return a client that is closed with the test."""
        client = open_client(self._address, conversing=SERVICE)
        self._stack.push_async_callback(client.stop)
        return client


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        yield Place(tmp_path, stack)


async def renew(client: RpcClient, step: int, timeout: float = 20.0) -> int:
    """Call with one lease; return what its answer tells."""
    request = pb.RenewLeaseRequest(leases=[StepLease(step=step)])
    method = CoordinatorServiceStub(client.batches).RenewLease
    answer = await client.call(method, request, timeout=timeout, fail_point=POINT)
    return answer.results[0].lease_ms


async def test_calls_share_a_stream_and_each_gets_its_own_answer_whichever_is_first(
    place: Place,
) -> None:
    service, others = made(), asyncio.Event()

    async def first_is_last(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        if request.leases[0].step == 1:
            await others.wait()
        elif request.leases[0].step == 20:
            others.set()
        return await repeat(request)

    service.answer = first_is_last
    await place.serve(service)
    client = place.client()
    steps = list(range(1, 21))
    assert await asyncio.gather(*(renew(client, step) for step in steps)) == steps
    assert service.streams == 1


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument(
            "wrong",
            reason=Reason.FIELD_INVALID,
            violations=[FieldViolation("leases.step", "is 1")],
        ),
        NotFound("no such run", reason=Reason.RUN_NOT_FOUND),
        FailedPrecondition("it has ended", reason=Reason.RUN_CLOSED),
    ],
)
async def test_an_error_of_the_tree_arrives_as_it_was_raised(
    place: Place, error: PerdureError
) -> None:
    service = made()

    async def refuse(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        raise error

    service.answer = refuse
    await place.serve(service)
    client = place.client()
    with pytest.raises(type(error)) as caught:
        await renew(client, 1)
    assert (caught.value.reason, caught.value.message) == (error.reason, error.message)
    assert getattr(caught.value, "violations", ()) == getattr(error, "violations", ())
    service.answer = repeat
    assert await renew(client, 2) == 2
    assert service.streams == 1


async def test_a_fault_is_hidden_from_the_caller_and_hurts_no_other_call(place: Place) -> None:
    service = made()

    async def fail(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        if request.leases[0].step == 1:
            raise ZeroDivisionError("a secret")
        return await repeat(request)

    service.answer = fail
    await place.serve(service)
    client = place.client()
    fault, answer = await asyncio.gather(renew(client, 1), renew(client, 2), return_exceptions=True)
    assert isinstance(fault, Internal)
    assert "secret" not in fault.message
    assert answer == 2


async def test_a_method_that_the_service_has_not_is_refused_alone(place: Place) -> None:
    await place.serve(made())
    client = place.client()
    method = client.batches.unary_unary(
        f"/{SERVICE}/Nothing",
        request_serializer=pb.RenewLeaseRequest.SerializeToString,
        response_deserializer=pb.RenewLeaseResponse.FromString,
    )
    with pytest.raises(Unimplemented) as caught:
        await client.call(method, pb.RenewLeaseRequest(), timeout=20.0, fail_point=POINT)
    assert caught.value.reason is Reason.METHOD_UNKNOWN
    assert await renew(client, 3) == 3


async def test_f091_what_is_too_large_either_way_is_refused_alone(place: Place) -> None:
    service = made()

    async def grow(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        count = 1 if request.leases[0].step == 1 else 1_500_000
        return pb.RenewLeaseResponse(results=[pb.RenewLeaseResult(lease_ms=1)] * count)

    service.answer = grow
    await place.serve(service)
    client = place.client()
    for step, filler in ((2, ""), (1, "x" * conversation.MAX_BYTES)):
        request = pb.RenewLeaseRequest(leases=[StepLease(step=step, org=filler)])
        with pytest.raises(InvalidArgument) as caught:
            await client.call(
                CoordinatorServiceStub(client.batches).RenewLease,
                request,
                timeout=20.0,
                fail_point=POINT,
            )
        assert caught.value.reason is Reason.PAYLOAD_TOO_LARGE
    assert await renew(client, 1) == 1
    assert service.streams == 1


async def test_a_call_without_an_answer_in_time_leaves_its_stream_to_those_that_have_one(
    place: Place,
) -> None:
    service, release = made(), asyncio.Event()

    async def hang(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        await release.wait()
        return await repeat(request)

    service.answer = hang
    await place.serve(service)
    client = place.client()
    patient = asyncio.create_task(renew(client, 1))
    with pytest.raises(DeadlineExceeded):
        await renew(client, 2, timeout=0.05)
    service.answer = repeat
    assert await renew(client, 3) == 3
    assert service.streams == 2
    release.set()
    assert await patient == 1


async def test_a_stream_that_is_old_ends_though_nobody_waits_for_its_last_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "LINE_SECONDS", 0.2)
    service, begun, release = made(), asyncio.Event(), asyncio.Event()

    async def hang(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        begun.set()
        await release.wait()
        return await repeat(request)

    service.answer = hang
    await place.serve(service)
    client = place.client()
    call = asyncio.create_task(renew(client, 1))
    await begun.wait()
    service.answer = repeat
    call.cancel()
    assert await renew(client, 2) == 2
    release.set()

    loop = asyncio.get_running_loop()
    old = loop.time() + 0.5
    await eventually(lambda: loop.time() > old)
    assert await renew(client, 3) == 3
    await eventually(lambda: _lines_read() == 1, what="the old stream's end")
    assert service.streams == 2


async def test_that_a_stream_ended_while_nobody_called_costs_no_call_a_repeat(
    place: Place,
) -> None:
    service = made()
    service.is_brief = True
    await place.serve(service)
    client = place.client()
    repeats = _repeats()
    for step in (1, 2, 3):
        assert await renew(client, step) == step
        await eventually(lambda: _lines_read() == 0, what="the stream's end")
    assert (service.calls, service.streams, _repeats()) == (3, 3, repeats)


def _lines_read() -> int:
    """Return how many streams have not ended for the client."""
    running = (getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())
    return sum(name == "_Line._read" for name in running)


def _repeats() -> float:
    return sum(
        sample.value
        for metric in RETRIES.collect()
        for sample in metric.samples
        if sample.labels.get("point") == POINT.name and sample.name.endswith("_total")
    )


async def test_a_stream_is_left_for_a_new_one_when_it_is_old(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "LINE_SECONDS", 0.0)
    service = made()
    await place.serve(service)
    client = place.client()
    assert [await renew(client, step) for step in (1, 2, 3)] == [1, 2, 3]
    assert service.streams == 3


async def test_f065_a_server_that_drains_answers_what_it_took_and_ends_the_stream(
    place: Place,
) -> None:
    service, begun, release = made(), asyncio.Event(), asyncio.Event()

    async def hold(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        begun.set()
        await release.wait()
        return await repeat(request)

    service.answer = hold
    server = await place.serve(service, grace=60.0)
    client = place.client()
    taken = asyncio.create_task(renew(client, 1))
    await begun.wait()
    stopping = asyncio.create_task(server.stop())
    await service.draining.wait()
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await renew(client, 2, timeout=0.2)
    release.set()
    assert await taken == 1
    await stopping
    assert service.calls == 1


async def test_a_call_whose_caller_is_gone_is_ended(place: Place) -> None:
    service, begun, ended = made(), asyncio.Event(), asyncio.Event()

    async def never(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return await repeat(request)

    service.answer = never
    await place.serve(service)
    client = place.client()
    call = asyncio.create_task(renew(client, 1, timeout=60.0))
    await begun.wait()
    call.cancel()
    await client.stop()
    async with asyncio.timeout(20):
        await ended.wait()


async def test_a_call_that_is_sent_once_is_not_sent_again(place: Place) -> None:
    service = made(breaks=1)
    await place.serve(service)
    client = place.client()
    method = CoordinatorServiceStub(client.batches).RenewLease
    with pytest.raises(Unavailable):
        await client.call_once(method, pb.RenewLeaseRequest(), timeout=20.0, fail_point=POINT)
    assert service.calls == 0
    assert await renew(client, 1) == 1


async def test_a_call_whose_stream_broke_is_sent_again_to_whoever_serves_then(
    place: Place,
) -> None:
    service, begun = made(), asyncio.Event()

    async def never(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        begun.set()
        await asyncio.Event().wait()
        return await repeat(request)

    service.answer = never
    server = await place.serve(service, grace=0.0)
    client = place.client()
    call = asyncio.create_task(renew(client, 1))
    await begun.wait()
    await server.stop()
    later = made()
    await place.serve(later)
    assert await call == 1
    assert later.calls == 1


async def test_a_call_is_sent_again_when_its_stream_broke_in_whatever_way(place: Place) -> None:
    service = made(breaks=1)
    await place.serve(service)
    assert await renew(place.client(), 1) == 1
    assert service.streams == 1


async def test_a_server_that_knows_no_streams_is_called_call_by_call(place: Place) -> None:
    service = made(is_old=True)
    await place.serve(service)
    client = place.client()
    assert [await renew(client, step) for step in (1, 2)] == [1, 2]


async def test_of_one_stream_a_bounded_number_of_calls_is_served_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversing, "MAX_AT_ONCE", 4)
    service, release = made(), asyncio.Event()

    async def hold(request: pb.RenewLeaseRequest) -> pb.RenewLeaseResponse:
        if service.at_once == 4:
            release.set()
        await release.wait()
        return await repeat(request)

    service.answer = hold
    await place.serve(service)
    client = place.client()
    steps = list(range(1, 33))
    assert await asyncio.gather(*(renew(client, step) for step in steps)) == steps
    assert service.most_at_once == 4
