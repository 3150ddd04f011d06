"""Runs of one workflow that comes by everything: two steps, a retry, a wait, an outside effect."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure import RunStatus

from perdure_testkit.engine import Engine
from perdure_testkit.provider import Behaviour, Provider
from perdure_testkit.verdict import assert_applied_once, assert_nothing_left, ended

WORKFLOW = """
name: tour
nodes:
  first: {task: {handler: test.echo}}
  flaky:
    needs: [first]
    task: {handler: test.fail, input: {times: 1}}
    retry: {max: 3, base: 50ms}
  pause: {needs: [flaky], wait: 50ms}
  mail:
    needs: [pause]
    http: {method: POST, url: "${input.url}", body: "${input}", effect: provider}
    retry: {max: 20, base: 50ms, cap: 200ms}
  last: {needs: [mail], task: {handler: test.echo, input: "${nodes.mail.output.body}"}}
"""

END_SECONDS = 40.0

_numbers = itertools.count(1)


@dataclass(slots=True)
class Tour:
    """A run, and the path of the provider that its mail goes to; `hold` lets a held call go."""

    path: str
    run_id: str = ""
    hold: asyncio.Event = field(default_factory=asyncio.Event)


class Tours:
    """Starts tours on an engine and judges them."""

    def __init__(self, engine: Engine, provider: Provider) -> None:
        self.engine = engine
        self.provider = provider
        self._held: list[Tour] = []

    async def publish(self) -> None:
        """Publish the workflow; to be called once."""
        await self.engine.client.publish_workflow(WORKFLOW)

    async def start(self) -> Tour:
        """Start a tour."""
        return await self._start(Tour(f"/mail/{next(_numbers)}"))

    async def start_held_open(self) -> Tour:
        """Start a tour and return when its mail's call is open; it is answered after `let_go`."""
        tour = Tour(f"/mail/{next(_numbers)}")
        self._held.append(tour)
        self.provider.script(tour.path, Behaviour(hold=tour.hold))
        await self._start(tour)
        await self.provider.wait_called(tour.path)
        return tour

    def let_go(self) -> None:
        """Answer every call that is held open, and those that begin later."""
        while self._held:
            self._held.pop().hold.set()

    async def assert_completed(self, tours: Sequence[Tour], *, within: float = END_SECONDS) -> None:
        """See tours completed, each mail sent once under one key, and nothing left behind."""
        client, place = self.engine.client, self.engine.place
        for run in await asyncio.gather(
            *(ended(client, place, tour.run_id, within=within) for tour in tours)
        ):
            assert run.status == RunStatus.RUN_STATUS_COMPLETED, run
        for tour in tours:
            (key,) = self.provider.keys_of(tour.path)
            assert key
            assert self.provider.times_worked(key) == 1
        await assert_applied_once(place, [tour.run_id for tour in tours])
        await assert_nothing_left(place)

    async def _start(self, tour: Tour) -> Tour:
        given = {"url": self.provider.url(tour.path)}
        tour.run_id = (await self.engine.client.start_run("tour", given)).run_id
        return tour
