"""The trace of a run goes through every process, found again in rows and messages."""

from __future__ import annotations

import secrets

import grpc
from perdure_contracts.v1.run_service_pb2 import StartRunRequest
from perdure_contracts.v1.run_service_pb2_grpc import RunServiceStub
from perdure_testkit.otlp import Collector, ReceivedSpan
from perdure_testkit.waiting import eventually

from tests.e2e.scene import SHARED_ENGINE, Scene, step_of

pytestmark = SHARED_ENGINE

NODES = {
    "before": {"task": {"handler": "test.echo"}},
    "pause": {"needs": ["before"], "wait": "100ms"},
    "after": {"needs": ["pause"], "task": {"handler": "test.echo"}},
    "chained": {"needs": ["after"], "task": {"handler": "test.echo"}},
}


_TASKS = {"before", "after", "chained"}
_HOPS = {
    ("perdure-ingest", "/perdure.v1.RunService/StartRun"),
    ("perdure-coordinator", "run start"),
    ("perdure-relay", "send"),
    ("perdure-worker", "process"),
    ("perdure-coordinator", "report"),
}


async def test_one_trace_leads_from_the_caller_through_every_hop_and_over_a_timer(
    scene: Scene, collector: Collector
) -> None:
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    name = (await scene.client.get_run(await scene.start(NODES))).workflow

    run_id = await _start(scene, name, f"00-{trace}-{caller}-01")
    run = await scene.completed(run_id)

    def arrived() -> bool:
        spans = collector.of_trace(trace)
        return (
            _HOPS.issubset((span.service, span.name) for span in spans)
            and _values(spans, "process", "perdure.node") == _TASKS
            and _values(spans, "report", "perdure.step")
            == {step_of(run, node).step for node in _TASKS}
        )

    await eventually(arrived, what="the spans of every hop")
    assert run.traceparent.split("-")[1] == trace
    await eventually(lambda: _is_a_tree_under(collector.of_trace(trace), caller))


async def test_a_run_without_a_caller_s_trace_begins_one_of_its_own(
    scene: Scene, collector: Collector
) -> None:

    run = await scene.completed(await scene.start(NODES))
    trace = run.traceparent.split("-")[1]

    def processed() -> bool:
        return _values(collector.of_trace(trace), "process", "perdure.node") == _TASKS

    await eventually(processed, what="its tries are in its trace")


async def _start(scene: Scene, workflow: str, traceparent: str) -> str:
    async with grpc.aio.insecure_channel(scene.client.address) as channel:
        start = RunServiceStub(channel).StartRun
        told = (("traceparent", traceparent), ("authorization", f"Bearer {scene.engine.api_key}"))
        answer = await start(StartRunRequest(workflow=workflow), metadata=told)
        return str(answer.run_id)


def _values(spans: list[ReceivedSpan], name: str, attribute: str) -> set[object]:
    return {span.attributes[attribute] for span in spans if span.name == name}


def _is_a_tree_under(spans: list[ReceivedSpan], root: str) -> bool:
    """Tell whether each span has a parent among the spans, or is the caller's child."""
    known = {span.span.span_id.hex() for span in spans} | {root}
    return all(span.span.parent_span_id.hex() in known for span in spans)
