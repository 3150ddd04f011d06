"""A worker dies at each place of an outside call, for each kind of effect (R8, protocol p4).

One run makes four calls: `pay` to a provider that honours the key, `book` and the method `charge`
to such as can be asked by key, `fax` to one that knows nothing of keys. What was really done is
counted by the providers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import perdure
import pytest
import pytest_asyncio
from perdure_contracts.v1.run_pb2 import Run
from perdure_runtime.fail_points import Side
from perdure_testkit.grpc_provider import KEY_NAME, GrpcProvider, Said
from perdure_testkit.nemesis import lapse_effects
from perdure_testkit.provider import IGNORED, Behaviour, Provider
from perdure_testkit.verdict import assert_nothing_left, ended
from perdure_testkit.waiting import eventually

from tests.crash.matrix import Entry
from tests.crash.stage import RUN_SECONDS, Stage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

PATHS = ("pay", "book", "fax")
NODES = (*PATHS, "charge")
WORKER = "worker"

WORKFLOW = """
name: four_calls
on_error: finish_others
nodes:
  pay:
    http: {method: POST, url: "${input.keyed}/pay", effect: provider}
    timeout: 20s
    retry: &again {max: 20, base: 50ms, cap: 200ms}
  book:
    http:
      method: POST
      url: ${input.unkeyed}/book
      effect:
        kind: reconcile
        lookup: {url: "${input.unkeyed}/lookup?key=${run.id}/book/request"}
    timeout: 20s
    retry: *again
  fax:
    http: {method: POST, url: "${input.unkeyed}/fax", effect: none}
    timeout: 20s
    retry: *again
  charge:
    grpc:
      target: ${input.methods}
      plaintext: true
      service: testkit.v1.Payments
      method: Charge
      request: {cents: 7}
      effect:
        kind: reconcile
        lookup: {method: Find, request: {key: "${run.id}/charge/request"}}
    timeout: 20s
    retry: *again
"""


@dataclass
class Outside:
    """The providers, and what they were asked to do in one run."""

    keyed: Provider
    unkeyed: Provider
    methods: GrpcProvider

    def of(self, node: str) -> Provider:
        return self.keyed if node == "pay" else self.unkeyed

    def all(self, *, hold: asyncio.Event | None = None, delay: asyncio.Event | None = None) -> None:
        """Let the next call of each node wait before its work, or after it."""
        for node in PATHS:
            self.of(node).script(f"/{node}", Behaviour(hold=hold, delay=delay))
        self.methods.script(Said(hold=hold, delay=delay))

    def worked(self, run_id: str, node: str) -> int:
        provider = self.of(node) if node in PATHS else self.methods
        return provider.times_worked(key_of(run_id, node))

    def was_called(self, run_id: str, node: str) -> bool:
        if node in PATHS:
            keys = {call.key for call in self.of(node).calls}
        else:
            keys = {metadata[KEY_NAME] for _, metadata in self.methods.calls}
        return key_of(run_id, node) in keys

    async def all_called(self, run_id: str) -> None:
        await eventually(
            lambda: all(self.was_called(run_id, node) for node in NODES), what="all is called"
        )

    async def all_worked(self, run_id: str) -> None:
        await eventually(
            lambda: all(self.worked(run_id, node) for node in NODES), what="all is done"
        )


def key_of(run_id: str, node: str) -> str:
    return f"{run_id}/{node}/request"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outside(matrix_stage: Stage) -> AsyncIterator[Outside]:
    found = Outside(Provider(), Provider(IGNORED), GrpcProvider(honours=False))
    for provider in (found.keyed, found.unkeyed, found.methods):
        await provider.start()
    await matrix_stage.client.publish_workflow(WORKFLOW)
    yield found
    for provider in (found.keyed, found.unkeyed, found.methods):
        await provider.stop()


Death = Callable[[Stage, Outside], Awaitable[str]]


async def start(stage: Stage, outside: Outside) -> str:
    given = {
        "keyed": outside.keyed.url(""),
        "unkeyed": outside.unkeyed.url(""),
        "methods": outside.methods.target,
    }
    return (await stage.client.start_run("four_calls", given)).run_id


def at(point: str, side: Side) -> Death:
    """Die where the worker comes by a fail point."""

    async def die(stage: Stage, outside: Outside) -> str:
        entry = Entry(WORKER, point, side)
        stage.arm(entry)
        run_id = await start(stage, outside)
        await stage.died(entry)
        return run_id

    return die


async def in_flight(stage: Stage, outside: Outside) -> str:
    """Die while every call is open; the providers do the work all the same."""
    gate = asyncio.Event()
    outside.all(hold=gate)
    run_id = await start(stage, outside)
    await outside.all_called(run_id)
    await stage.engine.supervisor.kill(WORKER)
    gate.set()
    await outside.all_worked(run_id)
    return run_id


async def after_the_work(stage: Stage, outside: Outside) -> str:
    """Die when every provider has done its work and none has answered."""
    never = asyncio.Event()
    outside.all(delay=never)
    run_id = await start(stage, outside)
    await outside.all_worked(run_id)
    await stage.engine.supervisor.kill(WORKER)
    never.set()
    return run_id


DEATHS: dict[str, Death] = {
    "with the leases, before anything is begun": at("worker.acquire_lease", Side.AFTER),
    "about to begin an effect": at("worker.begin_effect", Side.BEFORE),
    "with an effect begun, before its call": at("worker.begin_effect", Side.AFTER),
    "in flight": in_flight,
    "after the providers did it": after_the_work,
    "after the answer, before the record": at("worker.report_result", Side.BEFORE),
    "after the record": at("worker.report_result", Side.AFTER),
}
UNCALLED = ("with the leases, before anything is begun", "about to begin an effect")
CALLED = ("in flight", "after the providers did it")


async def settled_or_in_review(stage: Stage, run_id: str) -> Run:
    """Return the run when it has ended, or when only its fax goes on and waits for a person."""
    found: list[Run] = []

    async def rests() -> bool:
        run = await stage.client.get_run(run_id)
        status = {effect.key: effect.status for effect in run.effects}
        is_over = run.status != perdure.RunStatus.RUN_STATUS_RUNNING
        others = {status.get(key_of(run_id, node)) for node in NODES if node != "fax"}
        waits = status.get(key_of(run_id, "fax")) == "needs_review"
        found[:] = [run]
        return is_over or (waits and others == {"settled"})

    await eventually(rests, within=RUN_SECONDS, what="the run rests")
    return found[0]


async def decide(stage: Stage, outside: Outside, run_id: str) -> None:
    """Let a person look at the facts, ask the provider, and say what became of the fax."""
    key = key_of(run_id, "fax")
    entry = (await stage.client.effects.get(key)).effect
    assert (entry.node, entry.effect.kind, entry.effect.calls) == ("fax", "none", 1)
    if outside.worked(run_id, "fax"):
        await stage.client.effects.settle(key, {"status": 200}, asked_by="ada")
    else:
        await stage.client.effects.repeat(key, asked_by="ada")


@pytest.mark.parametrize("place", DEATHS)
async def test_r8_a_death_of_the_worker_does_nothing_twice_and_loses_nothing(
    stage: Stage, outside: Outside, place: str
) -> None:
    run_id = await DEATHS[place](stage, outside)
    await lapse_effects(stage.place)
    await stage.start_again(WORKER)
    await lapse_effects(stage.place)

    run = await settled_or_in_review(stage, run_id)

    waits = any(effect.status == "needs_review" for effect in run.effects)
    assert not waits or place not in UNCALLED, "a call that never began asks a person"
    assert waits or place not in CALLED, "a call that nobody can recognise was made again"
    if waits:
        await decide(stage, outside, run_id)
    run = await ended(stage.client, stage.place, run_id, within=RUN_SECONDS)
    assert run.status == perdure.RunStatus.RUN_STATUS_COMPLETED, run
    await assert_nothing_left(stage.place)
    done = {node: outside.worked(run_id, node) for node in NODES}
    assert done == dict.fromkeys(NODES, 1)
