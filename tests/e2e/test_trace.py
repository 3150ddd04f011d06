"""The trace of a run goes through every process, found again in rows and messages."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio
from perdure_contracts.v1.run_service_pb2 import StartRunRequest
from perdure_contracts.v1.run_service_pb2_grpc import RunServiceStub
from perdure_stack.services import SERVICES
from perdure_testkit.engine import Crew, Engine
from perdure_testkit.otlp import Collector, ReceivedSpan, running_collector
from perdure_testkit.place import temporary_place
from perdure_testkit.provider import Provider
from perdure_testkit.servers import Servers
from perdure_testkit.waiting import eventually

from tests.e2e.scene import Scene, step_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("e2e")]

ENGINE_NUMBER = 6  # beside the shared one, of at most two test processes
EXPORT_SECONDS = 15.0
"""Spans are sent every five seconds."""

NODES = {
    "before": {"task": {"handler": "test.echo"}},
    "pause": {"needs": ["before"], "wait": "100ms"},
    "after": {"needs": ["pause"], "task": {"handler": "test.echo"}},
    "chained": {"needs": ["after"], "task": {"handler": "test.echo"}},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def traced(servers: Servers, worker_number: int) -> AsyncIterator[tuple[Scene, Collector]]:
    provider = Provider()
    await provider.start()
    async with running_collector() as collector:
        crew = Crew(env={name: {"PERDURE_OTLP_ENDPOINT": collector.endpoint} for name in SERVICES})
        async with (
            temporary_place(servers, ENGINE_NUMBER + worker_number) as place,
            Engine(place, crew) as engine,
        ):
            yield Scene(engine, provider), collector
    await provider.stop()


@pytest.mark.timeout(120)
async def test_one_trace_leads_from_the_caller_through_every_hop_and_over_a_timer(
    traced: tuple[Scene, Collector],
) -> None:
    scene, collector = traced
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    name = (await scene.client.get_run(await scene.start(NODES))).workflow

    run_id = await _start(scene, name, f"00-{trace}-{caller}-01")
    run = await scene.completed(run_id)

    def arrived() -> bool:
        return _WANTED.issubset((span.service, span.name) for span in collector.of_trace(trace))

    await eventually(arrived, within=EXPORT_SECONDS, what="the spans of every hop")
    spans = collector.of_trace(trace)
    assert run.traceparent.split("-")[1] == trace
    assert _nodes_of(spans, "process") == {"before", "after", "chained"}
    assert _steps_of(spans, "report") == {
        step_of(run, node).step for node in ("before", "after", "chained")
    }
    assert _is_a_tree_under(spans, caller)


async def test_a_run_without_a_caller_s_trace_begins_one_of_its_own(
    traced: tuple[Scene, Collector],
) -> None:
    scene, collector = traced

    run = await scene.completed(await scene.start(NODES))

    trace = run.traceparent.split("-")[1]

    def processed() -> bool:
        return _nodes_of(collector.of_trace(trace), "process") == {"before", "after", "chained"}

    await eventually(processed, within=EXPORT_SECONDS, what="its tries are in its trace")


_WANTED = {
    ("perdure-ingest", "/perdure.v1.RunService/StartRun"),
    ("perdure-coordinator", "run start"),
    ("perdure-relay", "send"),
    ("perdure-worker", "process"),
    ("perdure-coordinator", "report"),
}


async def _start(scene: Scene, workflow: str, traceparent: str) -> str:
    async with grpc.aio.insecure_channel(scene.client.address) as channel:
        start = RunServiceStub(channel).StartRun
        answer = await start(
            StartRunRequest(workflow=workflow), metadata=(("traceparent", traceparent),)
        )
        return str(answer.run_id)


def _nodes_of(spans: list[ReceivedSpan], name: str) -> set[str]:
    return {span.attributes["perdure.node"] for span in spans if span.name == name}


def _steps_of(spans: list[ReceivedSpan], name: str) -> set[int]:
    return {span.attributes["perdure.step"] for span in spans if span.name == name}


def _is_a_tree_under(spans: list[ReceivedSpan], root: str) -> bool:
    """Tell whether each span has a parent among the spans, or is the caller's child."""
    known = {span.span.span_id.hex() for span in spans} | {root}
    return all(span.span.parent_span_id.hex() in known for span in spans)
