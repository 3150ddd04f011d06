"""The service configuration that ships beside the protos, and what a channel does with it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from importlib.resources import files
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from perdure import Client
from perdure.client_transport import SERVICE_CONFIG
from perdure_contracts.v1.run_service_pb2 import GetRunRequest, GetRunResponse
from perdure_ingest.call_rules import RULES_OF_CALLS
from perdure_ingest.gate.table import RULES
from perdure_worker.door.assembly import RULES_OF_CALLS as CALLS_OF_THE_DOOR
from perdure_worker.door.table import RULES as RULES_OF_THE_DOOR
from perdure_worker.door.table import SERVICE as SERVICE_OF_THE_DOOR

CONFIG: dict[str, Any] = json.loads(SERVICE_CONFIG)
SERVICE = "perdure.v1.RunService"
MAKES_ANEW = re.compile(r"Start|Signal|Enqueue|Create|Rotate|Erase|Migrate|Probe|Replay\w+s$")
STREAMS = {"/perdure.v1.RunService/WatchRun"}


def configured() -> dict[str, dict[str, Any]]:
    """Return what is said of each method by name."""
    return {
        f"/{name['service']}/{name['method']}": entry
        for entry in CONFIG["methodConfig"]
        for name in entry["name"]
        if name
    }


def test_it_names_methods_that_there_are_each_once() -> None:
    """A channel passes over a configuration that names one twice."""
    names = [str(name) for entry in CONFIG["methodConfig"] for name in entry["name"]]
    assert len(names) == len(set(names))
    assert configured().keys() <= RULES.keys()


def test_only_unavailable_is_repeated_and_nothing_that_makes_something_anew() -> None:
    repeated = {method for method, entry in configured().items() if "retryPolicy" in entry}
    assert [method for method in repeated if MAKES_ANEW.match(method.rpartition("/")[2])] == []
    assert "/perdure.v1.RunService/GetRun" in repeated
    codes = [one["retryPolicy"]["retryableStatusCodes"] for one in configured().values()
             if "retryPolicy" in one]  # fmt: skip
    assert all(one == ["UNAVAILABLE"] for one in codes)
    (usual,) = (entry for entry in CONFIG["methodConfig"] if entry["name"] == [{}])
    assert "retryPolicy" not in usual


@pytest.mark.parametrize("method", RULES)
def test_a_call_may_take_as_long_as_the_server_lets_it(method: str) -> None:
    (usual,) = (entry for entry in CONFIG["methodConfig"] if entry["name"] == [{}])
    limit = RULES_OF_CALLS.limit_of(method, streams=method in STREAMS)
    assert configured().get(method, usual)["timeout"] == f"{limit:g}s"


HANDLERS_CONFIG: dict[str, Any] = json.loads(
    (files("perdure_contracts.v1") / "worker_service_config.json").read_text("utf-8")
)


def test_a_handler_s_channel_repeats_all_but_polls_and_takes_as_long_as_the_door_lets_it() -> None:
    usual, polls = HANDLERS_CONFIG["methodConfig"]
    (named,) = polls["name"]
    poll = f"/{named['service']}/{named['method']}"
    assert (named["method"], "retryPolicy" in polls) == ("PollTasks", False)
    assert usual["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    for method in RULES_OF_THE_DOOR:
        limit = CALLS_OF_THE_DOOR.limit_of(method, streams=False)
        assert (polls if method == poll else usual)["timeout"] == f"{limit:g}s"
    assert HANDLERS_CONFIG["healthCheckConfig"] == {"serviceName": SERVICE_OF_THE_DOOR}


class Replica:
    """Answers GetRun, the first `failing` times as unavailable; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing = 0
        self.health = health.aio.HealthServicer()
        self.port = 0

    async def start(self, stack: AsyncExitStack) -> None:
        methods: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                self._answer(name),
                request_deserializer=GetRunRequest.FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
            for name in ("GetRun", "StartRun", "SignalRun")
        }
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        await self.set(health_pb2.HealthCheckResponse.SERVING)
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, None)

    async def set(self, status: Any) -> None:
        await self.health.set(SERVICE, status)

    def _answer(self, name: str) -> Any:
        async def answer(request: GetRunRequest, context: Any) -> GetRunResponse:
            self.asked.append(name)
            if len(self.asked) <= self.failing:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return GetRunResponse()

        return answer


@pytest.fixture
async def replicas() -> AsyncIterator[list[Replica]]:
    async with AsyncExitStack() as stack:
        made = [Replica(), Replica()]
        for one in made:
            await one.start(stack)
        yield made


def address_of(*replicas: Replica) -> str:
    return "ipv4:" + ",".join(f"127.0.0.1:{one.port}" for one in replicas)


async def test_calls_of_the_client_go_to_all_replicas_in_turn(replicas: list[Replica]) -> None:
    async with Client(address_of(*replicas)) as client:
        while not all(one.asked for one in replicas):
            await client.get_run("x")
        before = [len(one.asked) for one in replicas]
        for _ in range(10):
            await client.get_run("x")
    assert [len(one.asked) for one in replicas] == [count + 5 for count in before]


async def test_a_replica_that_drains_gets_no_calls(replicas: list[Replica]) -> None:
    first, second = replicas
    await first.set(health_pb2.HealthCheckResponse.NOT_SERVING)
    async with Client(address_of(first, second)) as client:
        for _ in range(10):
            await client.get_run("x")
    assert (first.asked, len(second.asked)) == ([], 10)


@pytest.mark.parametrize(("method", "times"), [("GetRun", 3), ("StartRun", 1), ("SignalRun", 1)])
async def test_a_channel_without_the_sdk_repeats_what_may_be_repeated(
    replicas: list[Replica], method: str, times: int
) -> None:
    replica = replicas[0]
    replica.failing = 2
    options = (("grpc.service_config", SERVICE_CONFIG),)
    async with grpc.aio.insecure_channel(address_of(replica), options=options) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/{method}")
        with suppress(grpc.aio.AioRpcError):
            await call(b"")
    assert replica.asked == [method] * times
