"""The same random orders of events, alone and in batches, on both engines: each is as the other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perdure_machine.events import (
    Acquire,
    CancelRun,
    Event,
    Failed,
    FireTimer,
    Release,
    Report,
    Succeeded,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Applied, Early, Granted, Reply
from perdure_machine.states import EffectOutcome
from perdure_machine.view import NodeError
from perdure_runtime.errors import PerdureError
from perdure_testkit.database import temporary_database
from perdure_testkit.engines.driver import ORG, expiry, new_lease, offer_of
from perdure_testkit.engines.memory import MemoryPort
from perdure_testkit.engines.port import Engine, StartOf
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.engines.workflows import INPUTS, PAYLOADS, documents
from perdure_testkit.servers import Servers

T = TypeVar("T")
LONG = 100.0  # seconds, after which everything that waits is due

acts = st.tuples(
    st.sampled_from(
        ["acquire", "acquire", "succeed", "succeed", "chain", "fail", "release", "fire", "repeat",
         "cancel"]
    ),
    st.integers(0, 7),
)  # fmt: skip
turns = st.one_of(st.lists(acts, min_size=1, max_size=3), st.just("wait"))


@dataclass
class World:
    """Both engines, and a loop of their own that outlives the examples."""

    runner: asyncio.Runner
    postgres: PostgresPort


@pytest.fixture(scope="module")
def world(servers: Servers) -> Iterator[World]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        database = runner.run(
            stack.enter_async_context(temporary_database(servers.database_url, servers.template))
        )
        yield World(runner, runner.run(PostgresPort.open(database, orgs=[ORG])))
        runner.run(stack.aclose())


@given(
    document=documents(),
    payload=st.sampled_from(INPUTS),
    script=st.lists(turns, min_size=4, max_size=14),
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_both_engines_answer_and_keep_the_same(
    world: World, document: bytes, payload: bytes, script: list[list[tuple[str, int]] | str]
) -> None:
    world.runner.run(play(world.postgres, document, payload, script))


async def play(
    postgres: PostgresPort,
    document: bytes,
    payload: bytes,
    script: list[list[tuple[str, int]] | str],
) -> None:
    await postgres.clear()
    twins = await Twins.begin(MemoryPort(), postgres, document, payload)
    for turn in script:
        if isinstance(turn, str):
            await twins.wait()
        else:
            await twins.submit([e for act in turn if (e := await twins.event(*act)) is not None])
        await twins.compare()


@dataclass
class Twins:
    """One run on each engine; what happens is chosen by the first and done to both."""

    engines: tuple[Engine, Engine]
    runs: tuple[UUID, UUID]
    grants: list[Granted] = field(default_factory=list)
    sent: list[Event] = field(default_factory=list)

    @classmethod
    async def begin(cls, first: Engine, second: Engine, document: bytes, payload: bytes) -> "Twins":
        runs = []
        for engine in (first, second):
            version = await engine.publish(ORG, document)
            started = await engine.start(ORG, StartOf("flow", payload, version))
            runs.append(started.run_id)
        return cls((first, second), (runs[0], runs[1]))

    async def event(self, act: str, choice: int) -> Event | None:
        """Return what is to happen; None where there is nothing to choose from."""
        match act:
            case "acquire":
                queued = pick(await self.engines[0].queued(), choice)
                return Acquire(queued[1], new_lease(), "w") if queued else None
            case "fire":
                timer = pick(await self.engines[0].timers(), choice)
                return FireTimer(timer.timer_id) if timer else None
            case "repeat":
                return pick(self.sent, choice)
            case "cancel":
                return CancelRun() if choice == 0 else None
            case _:
                grant = pick(self.grants, choice)
                return ending(act, grant, choice) if grant else None

    async def submit(self, events: Sequence[Event]) -> None:
        if not events:
            return
        translated = [await self.translated(event) for event in events]
        first = await self.engines[0].submit(ORG, self.runs[0], *events)
        second = await self.engines[1].submit(ORG, self.runs[1], *translated)
        assert [self.plain(a) for a in first] == [self.plain(a) for a in second]
        self.sent += events
        for answer in first:
            match answer:
                case Granted() as granted:
                    self.grants.append(granted)
                case Applied(next=Granted() as granted):
                    self.grants.append(granted)
                case _:
                    pass

    async def translated(self, event: Event) -> Event:
        """Return the event for the second engine, whose timers have numbers of their own."""
        if not isinstance(event, FireTimer):
            return event
        own = {t.timer_id: (t.kind, t.step) for t in await self.engines[0].timers()}
        other = {(t.kind, t.step): t.timer_id for t in await self.engines[1].timers()}
        return FireTimer(other.get(own[event.timer_id], 0) if event.timer_id in own else 0)

    async def wait(self) -> None:
        """Let long time pass; what ran out is taken away, as a sweep does."""
        for engine in self.engines:
            await engine.advance(LONG)
        for engine, run in zip(self.engines, self.runs, strict=True):
            for lease in sorted(await engine.expired(), key=lambda one: one.step):
                await engine.submit(ORG, run, expiry(lease))

    def plain(self, answer: Reply | PerdureError | None) -> object:
        """Return an answer without what differs for good: ids of runs, fractions of seconds."""
        match answer:
            case Granted():
                effect = answer.effect and (answer.effect.status, answer.effect.calls)
                return (
                    replace(answer.step, lease_left=None, effect_prefix=None),
                    round(answer.lease_for / 10), answer.timeout, answer.handler, effect,
                )  # fmt: skip
            case Applied():
                return "applied", self.plain(answer.next)
            case Early() | PerdureError():
                return type(answer)
            case _:
                return answer

    async def compare(self) -> None:
        for look in LOOKS:
            first, second = [
                await look(engine, run) for engine, run in zip(self.engines, self.runs, strict=True)
            ]
            assert first == second


async def run_of(engine: Engine, run: UUID) -> object:
    return replace(await engine.run(run), run_id=UUID(int=0), workflow_id=0, workflow_version=0)


async def steps_of(engine: Engine, run: UUID) -> object:
    return [replace(step, effect_prefix=None) for step in await engine.steps(run)]


async def effects_of(engine: Engine, run: UUID) -> object:
    return [replace(effect, key=effect.key[36:]) for effect in await engine.effects(run)]


async def rest_of(engine: Engine, run: UUID) -> object:
    timers = sorted((str(t.kind), t.step or 0) for t in await engine.timers())
    queued = [step for _, step in await engine.queued()]
    return timers, queued, await engine.attempts(run), await engine.history(run)


async def stuck_of(engine: Engine, run: UUID) -> object:
    assert not await engine.no_way_forward()
    return None


LOOKS: tuple[Callable[[Engine, UUID], Awaitable[object]], ...] = (
    run_of, steps_of, effects_of, rest_of, stuck_of,
)  # fmt: skip


def ending(act: str, grant: Granted, choice: int) -> Event:
    step = grant.step
    assert step.lease_id is not None
    if act == "release":
        return Release(step.step, step.fence, step.lease_id)
    effect = (None, None, *EffectOutcome)[choice % 5]
    offer = offer_of("io:acme", "io:shared") if act == "chain" else None
    outcome: Succeeded | Failed = Succeeded(PAYLOADS[choice % len(PAYLOADS)])
    if act == "fail":
        category = ErrorClass.PERMANENT if choice == 7 else ErrorClass.RETRYABLE
        outcome = Failed(NodeError(category, "BROKEN", "it broke"))
    return Report(step.step, step.fence, step.lease_id, outcome, effect, offer, jitter=0.5)


def pick(things: Sequence[T], choice: int) -> T | None:
    return things[choice % len(things)] if things else None
