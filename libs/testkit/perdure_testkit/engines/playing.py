"""Plays runs to their end on an engine, with workers whose handlers are known by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

import perdure
from perdure_machine.events import Acquire, ExpireRun, Failed, Report, Succeeded
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Granted
from perdure_machine.states import EffectOutcome, RunStatus
from perdure_machine.view import NodeError, RunState

from perdure_testkit.engines.driver import MAX_ROUNDS, Driver, new_lease
from perdure_testkit.engines.handling import run_handler

IDLE = 1.0
"""Most seconds that pass at a time once a handler hangs: its lease may run out."""

Answer = Succeeded | Failed | None
"""How a try ends; None for a worker that is not heard of again."""

Handler = Callable[[bytes, int], Answer]
"""Is given a step's input and how often its node was tried in its run, from 1."""


def _echo(given: bytes, number: int) -> Answer:
    return Succeeded(given)


def _fail(given: bytes, number: int) -> Answer:
    return Failed(NodeError(ErrorClass.PERMANENT, "BROKEN", "it broke"))


def _fail_once(given: bytes, number: int) -> Answer:
    if number > 1:
        return Succeeded(given)
    return Failed(NodeError(ErrorClass.RETRYABLE, "BUSY", "it is busy"))


def _hang(given: bytes, number: int) -> Answer:
    return None


def _http(given: bytes, number: int) -> Answer:
    answer = {"status": 200, "headers": {}, "body": json.loads(given)}
    return Succeeded(json.dumps(answer).encode())


def _grpc(given: bytes, number: int) -> Answer:
    return Succeeded(json.dumps(json.loads(given).get("request", {})).encode())


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "echo": _echo,
        "fail": _fail,
        "fail_once": _fail_once,
        "hang": _hang,
        "http": _http,
        "grpc": _grpc,
    }
)
"""`http` and `grpc` stand for every such call: the answer has what was asked."""


@dataclass(slots=True)
class Player:
    """The workers, the timer service and the sweeper of a driver's engine."""

    driver: Driver
    handler_of: Callable[[str], Handler] = HANDLERS.__getitem__
    handlers: Mapping[str, perdure.Handler] = field(default_factory=dict)
    """Handlers made for workers, which run as they do there, effects included."""
    tries: Counter[tuple[UUID, str]] = field(default_factory=Counter)
    """How often each node of each run was tried."""
    hangs: bool = False
    """Whether a try was never heard of again."""

    async def play(self, run_id: UUID) -> RunState:
        """Let everything happen until the run has ended, and return it."""
        for _ in range(MAX_ROUNDS):
            await self.driver.submit(run_id, ExpireRun())
            await self.driver.settle()
            run = await self.driver.engine.run(run_id)
            if run.status is not RunStatus.RUNNING:
                return run
            if not await self.work():
                await self._pass_time()
        raise AssertionError("the run goes on for ever")

    async def work(self) -> bool:
        """Do all that is queued; tell whether there was anything."""
        queued = await self.driver.engine.queued()
        for run_id, step in queued:
            reply = await self.driver.submit(run_id, Acquire(step, new_lease(), "worker"))
            if isinstance(reply, Granted):
                await self._handle(reply)
        return bool(queued)

    async def _handle(self, granted: Granted) -> None:
        step, tried = granted.step, (granted.run.run_id, granted.step.node)
        self.tries[tried] += 1
        handler = self.handlers.get(granted.handler)
        if handler is not None:
            await self._run(granted, handler)
            return
        handle = self.handler_of(granted.handler or step.kind)
        answer = handle(step.input or b"null", self.tries[tried])
        if answer is None:
            self.hangs = True
            return
        assert step.lease_id is not None
        done = EffectOutcome.PERFORMED if granted.effect is not None else None
        report = Report(step.step, step.fence, step.lease_id, answer, effect=done)
        await self.driver.submit(granted.run.run_id, report)

    async def _run(self, granted: Granted, handler: perdure.Handler) -> None:
        step, answer = granted.step, await run_handler(self.driver, granted, handler)
        if answer is not None:
            assert step.lease_id is not None
            report = Report(step.step, step.fence, step.lease_id, answer)
            await self.driver.submit(granted.run.run_id, report)

    async def _pass_time(self) -> None:
        waits = [max(0.0, timer.remaining) for timer in await self.driver.engine.timers()]
        if self.hangs:
            waits.append(IDLE)
        assert waits, "nothing is left that could end the run"
        await self.driver.engine.advance(min(waits))
