"""Calls of gRPC methods by a worker, at a real server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure import Cancellation
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.errors import InvalidArgument
from perdure_testkit.grpc_provider import SERVICE, GrpcProvider, Said, files
from perdure_testkit.tls import Authority
from perdure_testkit.waiting import eventually
from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.addresses import AddressRule
from perdure_worker.egress.egress import Egress, EgressSettings
from perdure_worker.egress.lookup import Lookup
from perdure_worker.executors.grpc import GrpcExecutor, GrpcSettings
from perdure_worker.executors.grpc_methods import Methods
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Completed, Effect, ErrorClass

from tests.integration.worker.fake_engine import Stage, grant

NO_EFFECTS = cast(EffectCalls, None)
"""These calls ride: nothing is begun by itself."""

KEY = "run/node/request"
LOOPBACK = ip_network("127.0.0.0/8")
MAX_RESPONSE = 100_000


@dataclass
class Caller:
    egress: Egress
    executor: GrpcExecutor
    names: dict[str, Sequence[str]] = field(default_factory=dict)

    async def resolve(self, host: str, _: int) -> Sequence[str]:
        return self.names.get(host, [host])

    async def call(self, target: str, *, seconds: float = 20.0, **more: Any) -> Any:
        deadline = time.monotonic() + seconds
        found = grpc_grant(target, **more)
        return await self.executor.run(found, TryContext(deadline, Cancellation()))


def grpc_grant(target: str, **more: Any) -> dispatch_pb2.StepGrant:
    usual = {"service": SERVICE, "method": "Charge", "plaintext": True}
    return grant(
        kind=dispatch_pb2.STEP_KIND_GRPC,
        input=json.dumps({"target": target, **usual, **more}).encode(),
        effect=dispatch_pb2.EffectGrant(key=KEY, kind="provider", calls=1),
        handler="",
    )


async def caller(allowed: list[Any], ca_file: str = "", descriptors: Sequence[str] = ()) -> Caller:
    egress = Egress(EgressSettings(allowed, ca_file, lookups=4))
    settings = GrpcSettings(connect=5.0, total=30.0, max_response=MAX_RESPONSE)
    found = Caller(egress, GrpcExecutor(settings, egress, Methods(descriptors), NO_EFFECTS))
    egress.lookup = Lookup(found.resolve, AddressRule(allowed))
    return found


@pytest.fixture
async def inside() -> AsyncIterator[Caller]:
    found = await caller([LOOPBACK])
    yield found
    await found.egress.stop()


@pytest.fixture
async def provider() -> AsyncIterator[GrpcProvider]:
    found = GrpcProvider()
    await found.start()
    yield found
    await found.stop()


async def test_a_method_is_called_under_the_effect_key_and_answers_as_json(
    inside: Caller, provider: GrpcProvider
) -> None:
    request = {"account": "a", "cents": "9007199254740993", "at": "2030-01-01T00:00:00Z"}
    outcome = await inside.call(provider.target, request=request, metadata={"x-run": "7"})
    answer = {"id": "c1", "cents": "9007199254740993", "worked": 1}
    assert outcome == Completed(
        json.dumps(answer, separators=(",", ":")).encode(), Effect.PERFORMED
    )
    ((_, metadata),) = provider.calls
    assert (metadata["idempotency-key"], metadata["x-run"]) == (KEY, "7")


async def test_a_key_that_the_definition_gives_is_not_overridden(
    inside: Caller, provider: GrpcProvider
) -> None:
    await inside.call(provider.target, metadata={"idempotency-key": "mine"})
    assert provider.times_worked("mine") == 1


NO, UNKNOWN = Effect.NOT_PERFORMED, Effect.UNKNOWN


@pytest.mark.parametrize(
    ("status", "kind", "effect"),
    [
        (grpc.StatusCode.CANCELLED, ErrorClass.RETRYABLE, UNKNOWN),
        (grpc.StatusCode.UNKNOWN, ErrorClass.RETRYABLE, UNKNOWN),
        (grpc.StatusCode.INVALID_ARGUMENT, ErrorClass.PERMANENT, NO),
        (grpc.StatusCode.NOT_FOUND, ErrorClass.PERMANENT, NO),
        (grpc.StatusCode.ALREADY_EXISTS, ErrorClass.PERMANENT, UNKNOWN),
        (grpc.StatusCode.PERMISSION_DENIED, ErrorClass.AUTHORISATION, NO),
        (grpc.StatusCode.UNAUTHENTICATED, ErrorClass.AUTHORISATION, NO),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ErrorClass.RATE_LIMITED, NO),
        (grpc.StatusCode.FAILED_PRECONDITION, ErrorClass.PERMANENT, NO),
        (grpc.StatusCode.ABORTED, ErrorClass.RETRYABLE, UNKNOWN),
        (grpc.StatusCode.OUT_OF_RANGE, ErrorClass.PERMANENT, NO),
        (grpc.StatusCode.UNIMPLEMENTED, ErrorClass.PERMANENT, NO),
        (grpc.StatusCode.INTERNAL, ErrorClass.RETRYABLE, UNKNOWN),
        (grpc.StatusCode.UNAVAILABLE, ErrorClass.RETRYABLE, UNKNOWN),
        (grpc.StatusCode.DATA_LOSS, ErrorClass.RETRYABLE, UNKNOWN),
    ],
)
async def test_what_a_grpc_status_means_for_retries_and_for_the_effect(
    inside: Caller,
    provider: GrpcProvider,
    status: grpc.StatusCode,
    kind: ErrorClass,
    effect: Effect,
) -> None:
    provider.script(Said(works=False, status=status, details="why"))
    outcome = await inside.call(provider.target)
    assert (outcome.code, outcome.error_class) == (f"GRPC_{status.name}", kind)
    assert outcome.effect is effect
    assert outcome.message.endswith(f"{status.name}: why")


async def test_f043_the_wait_that_a_server_asks_for_is_told(
    inside: Caller, provider: GrpcProvider
) -> None:
    status = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=7, nanos=500_000_000)))
    trailers = (("grpc-status-details-bin", status.SerializeToString()),)
    refusal = Said(works=False, status=grpc.StatusCode.RESOURCE_EXHAUSTED, trailers=trailers)
    provider.script(refusal)
    outcome = await inside.call(provider.target)
    assert (outcome.error_class, outcome.retry_after) == (ErrorClass.RATE_LIMITED, 7.5)


async def test_a_server_that_is_not_there_was_not_called(inside: Caller) -> None:
    gone = GrpcProvider()
    await gone.start()
    await gone.stop()
    outcome = await inside.call(gone.target)
    assert (outcome.code, outcome.error_class) == ("CONNECT_FAILED", ErrorClass.RETRYABLE)
    assert outcome.effect is Effect.NOT_PERFORMED


async def test_protocol_p4_a_method_that_does_not_answer_in_time_is_unknown(
    inside: Caller, provider: GrpcProvider
) -> None:
    silent = asyncio.Event()
    provider.script(Said(hold=silent))
    outcome = await inside.call(provider.target, seconds=1.0)
    assert (outcome.code, outcome.effect) == ("TIMEOUT", Effect.UNKNOWN)
    silent.set()


async def test_protocol_p4_a_server_that_ends_in_the_call_leaves_it_unknown(
    inside: Caller, provider: GrpcProvider
) -> None:
    provider.script(Said(hold=asyncio.Event()))
    calling = asyncio.create_task(inside.call(provider.target))
    await eventually(lambda: provider.calls)
    await provider.stop()
    outcome = await calling
    assert outcome.error_class is ErrorClass.RETRYABLE
    assert outcome.effect is Effect.UNKNOWN


async def test_an_answer_over_the_limit_was_performed(
    inside: Caller, provider: GrpcProvider
) -> None:
    provider.script(Said(note="x" * MAX_RESPONSE))
    outcome = await inside.call(provider.target)
    assert (outcome.code, outcome.error_class) == ("RESPONSE_TOO_LARGE", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.PERFORMED


async def test_an_answer_that_is_no_message_was_performed(
    inside: Caller, provider: GrpcProvider
) -> None:
    provider.script(Said(raw=b"\x0a\xff"))
    outcome = await inside.call(provider.target)
    assert (outcome.code, outcome.effect) == ("RESPONSE_UNREADABLE", Effect.PERFORMED)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"request": {"cents": "many"}}, "REQUEST_INVALID"),
        ({"request": {"colour": 1}}, "REQUEST_INVALID"),
        ({"request": [1]}, "REQUEST_INVALID"),
        ({"request": {"cents": 2**64}}, "REQUEST_INVALID"),
        ({"metadata": {"grpc-timeout": "1S"}}, "REQUEST_INVALID"),
        ({"metadata": {"x": "a\nb"}}, "REQUEST_INVALID"),
        ({"method": "Refund"}, "METHOD_UNKNOWN"),
        ({"method": "Watch"}, "METHOD_UNKNOWN"),
        ({"service": "testkit.v1.Other"}, "METHOD_UNKNOWN"),
    ],
)
async def test_what_no_method_takes_is_never_called(
    inside: Caller, provider: GrpcProvider, more: dict[str, Any], code: str
) -> None:
    outcome = await inside.call(provider.target, **more)
    assert (outcome.code, outcome.error_class) == (code, ErrorClass.PERMANENT), outcome
    assert outcome.effect is Effect.NOT_PERFORMED
    assert provider.calls == []


@pytest.mark.parametrize("target", ["host", "host:0", "host:70000", "http://host:1", "a b:1", ":1"])
async def test_a_target_is_a_host_and_a_port(inside: Caller, target: str) -> None:
    assert (await inside.call(target)).code == "REQUEST_INVALID"


async def test_a_server_that_does_not_describe_itself_is_called_by_given_descriptors(
    tmp_path: Path,
) -> None:
    provider = GrpcProvider(describes=False)
    await provider.start()
    plain = await caller([LOOPBACK])
    outcome = await plain.call(provider.target)
    assert (outcome.code, outcome.effect) == ("REFLECTION_FAILED", Effect.NOT_PERFORMED)
    given = tmp_path / "payments.binpb"
    given.write_bytes(FileDescriptorSet(file=files()).SerializeToString())
    knowing = await caller([LOOPBACK], descriptors=[str(given)])
    assert isinstance(await knowing.call(provider.target), Completed)
    for one in (plain, knowing):
        await one.egress.stop()
    await provider.stop()


@pytest.mark.parametrize("refusal", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL])
async def test_a_server_that_describes_itself_by_the_older_way_alone_is_called(
    inside: Caller, refusal: grpc.StatusCode
) -> None:
    provider = GrpcProvider(newest=refusal)
    await provider.start()
    assert isinstance(await inside.call(provider.target), Completed)
    await provider.stop()


def test_a_file_without_descriptors_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="grpc_descriptors"):
        Methods([str(tmp_path / "none")])


async def test_an_address_of_the_inside_is_refused_to_methods_too(provider: GrpcProvider) -> None:
    outside = await caller([])
    outcome = await outside.call(provider.target)
    assert (outcome.code, outcome.effect) == ("ADDRESS_REFUSED", Effect.NOT_PERFORMED)
    assert provider.calls == []
    await outside.egress.stop()


@pytest.mark.parametrize("name", ["shop.example", "thief.example"])
async def test_a_server_proves_the_name_that_was_asked_for(tmp_path: Path, name: str) -> None:
    authority = Authority(tmp_path)
    provider = GrpcProvider(tls=authority.pem("shop.example"))
    await provider.start()
    one = await caller([LOOPBACK], str(authority.file))
    one.names[name] = ["127.0.0.1"]
    outcome = await one.call(f"{name}:{provider.port}", plaintext=False)
    if name == "shop.example":
        assert isinstance(outcome, Completed)
    else:
        assert (outcome.code, outcome.effect) == ("CONNECT_FAILED", Effect.NOT_PERFORMED)
        assert provider.calls == []
    await one.egress.stop()
    await provider.stop()


async def test_a_worker_runs_steps_of_methods(stage: Stage, provider: GrpcProvider) -> None:
    await stage.start()
    report = await stage.one_result(grpc_grant(provider.target, request={"account": "a"}))
    assert json.loads(report.output) == {"id": "c1", "worked": 1}
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
