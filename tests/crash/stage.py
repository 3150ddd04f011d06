"""What an entry of the matrix does: arm, let the process come by, see it die, start it again."""

from __future__ import annotations

import asyncio
import itertools
import signal
from dataclasses import dataclass, field
from pathlib import Path

import perdure
from perdure_testkit.engine import Engine
from perdure_testkit.holding import Holding
from perdure_testkit.nemesis import age_pending_entries, lapse_leadership, lapse_leases
from perdure_testkit.place import Place
from perdure_testkit.provider import Behaviour, Provider
from perdure_testkit.verdict import assert_applied_once, assert_nothing_left, ended

from tests.crash.matrix import ELECTED, Entry

DEATH_SECONDS = 20.0
RUN_SECONDS = 40.0
LOG_LINES = 15

# Two steps, a retry, a wait, an outside effect: a run comes by most points by itself.
TOUR = """
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
HELD = """
name: held
nodes:
  hold: {task: {handler: test.hold}}
  last: {needs: [hold], task: {handler: test.echo}}
"""
WORKFLOWS = (TOUR, HELD)

_numbers = itertools.count(1)


@dataclass(slots=True)
class Tour:
    """A run of `tour`; its mail goes to `path`, held open until `hold` is set if there is one."""

    path: str
    url: str
    run_id: str = ""
    hold: asyncio.Event = field(default_factory=asyncio.Event)


class Stage:
    """The engine and the provider, with what the entries do to them."""

    def __init__(self, engine: Engine, provider: Provider, tokens: Path) -> None:
        self.engine = engine
        self.provider = provider
        self._tokens = tokens
        self._holds: list[asyncio.Event] = []

    @property
    def place(self) -> Place:
        """Where the engine keeps its state."""
        return self.engine.place

    @property
    def client(self) -> perdure.Client:
        """The engine's client."""
        return self.engine.client

    def new_tour(self) -> Tour:
        """Return a tour that is not started yet, with a path of its own at the provider."""
        path = f"/mail/{next(_numbers)}"
        return Tour(path, self.provider.url(path))

    async def start(self, tour: Tour) -> Tour:
        """Start a tour."""
        tour.run_id = (await self.client.start_run("tour", {"url": tour.url})).run_id
        return tour

    async def start_held_open(self) -> Tour:
        """Start a tour and return when its mail's call is open; `tour.hold` lets it be answered."""
        tour = self.new_tour()
        self._holds.append(tour.hold)
        self.provider.script(tour.path, Behaviour(hold=tour.hold))
        await self.start(tour)
        await self.provider.wait_called(tour.path)
        return tour

    async def start_holding(self) -> tuple[str, Holding]:
        """Start a run of `held` and return it when its step runs."""
        holding = Holding.within(self.place.directory)
        run_id = (await self.client.start_run("held", holding.given)).run_id
        await holding.wait_running()
        return run_id, holding

    def arm(self, entry: Entry) -> None:
        """Let the owner die when it next comes by."""
        (self._tokens / str(entry)).touch()

    async def died(self, entry: Entry) -> None:
        """Wait until the owner has died there and nowhere else."""
        try:
            status = await self.engine.supervisor.wait_exit(entry.owner, DEATH_SECONDS)
        except TimeoutError:
            log = self.engine.supervisor.log(entry.owner).read_text().splitlines()
            last = "\n".join(log[-LOG_LINES:])
            raise AssertionError(f"{entry.owner} never came by {entry.point}:\n{last}") from None
        assert status == -signal.SIGKILL
        assert not (self._tokens / str(entry)).exists(), "it died elsewhere"

    async def stop_dies(self, entry: Entry) -> None:
        """Stop the owner and see that it dies on the way out."""
        status = await self.engine.supervisor.stop(entry.owner)
        assert status == -signal.SIGKILL, f"{entry.owner} never came by {entry.point}"
        assert not (self._tokens / str(entry)).exists(), "it was killed for being slow"

    async def start_again(self, owner: str) -> None:
        """Start a dead process again, when what it held is called abandoned."""
        if owner in ELECTED:
            await lapse_leadership(self.place, owner)
        if owner == "worker":
            await age_pending_entries(self.place)
            await lapse_leases(self.place)
        # What needs it waits for it; what does not need it need not wait.
        await self.engine.supervisor.start(owner, ready=False)

    async def crash(self, entry: Entry) -> None:
        """See the owner die and start it again."""
        await self.died(entry)
        await self.start_again(entry.owner)

    async def completes(self, tour: Tour) -> None:
        """See a tour completed, its mail sent under one key, and nothing left behind."""
        await self.ends(tour.run_id)
        (key,) = self.provider.keys_of(tour.path)
        assert key
        assert self.provider.times_worked(key) == 1

    async def ends(self, run_id: str) -> None:
        """See a run completed with one result for each step, and nothing left behind."""
        run = await ended(self.client, self.place, run_id, within=RUN_SECONDS)
        assert perdure.RunStatus.Name(run.status) == "RUN_STATUS_COMPLETED", run
        await assert_applied_once(self.place, [run_id])
        await assert_nothing_left(self.place)

    async def repair(self) -> None:
        """Let everything run again, whatever an entry that failed has left."""
        for token in self._tokens.iterdir():
            token.unlink()
        while self._holds:
            self._holds.pop().set()
        for name in self.engine.supervisor.names:
            if self.engine.supervisor.pid(name) is None:
                await self.start_again(name)
            else:
                self.engine.send_signal(name, signal.SIGCONT)
