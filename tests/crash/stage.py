"""What an entry of the matrix does: arm, let the process come by, see it die, start it again."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import perdure
from perdure_testkit.holding import Holding
from perdure_testkit.nemesis import age_pending_entries, lapse_leadership, lapse_leases
from perdure_testkit.place import Place
from perdure_testkit.tours import Tours
from perdure_testkit.verdict import assert_applied_once, assert_nothing_left, ended
from perdure_testkit.waiting import eventually

from tests.crash.matrix import ELECTED, Entry

DEATH_SECONDS = 30.0
RUN_SECONDS = 40.0
LOG_LINES = 15

HELD_WORKFLOW = """
name: held
nodes:
  hold: {task: {handler: test.hold}}
  last: {needs: [hold], task: {handler: test.echo}}
"""

CHILD_WORKFLOW = """
name: child
nodes:
  hold: {task: {handler: test.hold}}
"""

PARENT_WORKFLOW = """
name: parent
nodes:
  hold: {task: {handler: test.hold, input: "${input.own}"}}
  call: {needs: [hold], run: {workflow: child, input: "${input.child}"}}
"""

TURNS_WORKFLOW = """
name: turns
exclusive: {key: turns}
nodes:
  hold: {task: {handler: test.hold}}
"""

EFFECT_WORKFLOW = """
name: effect
nodes:
  make: {task: {handler: test.effect, input: "${input}"}}
"""

DOUBT_WORKFLOW = """
name: doubt
nodes:
  ask: {task: {handler: test.doubt}}
"""

AWAITING_WORKFLOW = """
name: awaiting
nodes:
  wait: {signal: {name: go, key: "${input.key}"}}
  last: {needs: [wait], task: {handler: test.echo}}
"""


class Stage:
    """The engine of the matrix, with what the entries do to it."""

    def __init__(self, tours: Tours, tokens: Path) -> None:
        self.tours = tours
        self.engine = tours.engine
        self._tokens = tokens

    @property
    def place(self) -> Place:
        """Where the engine keeps its state."""
        return self.engine.place

    @property
    def client(self) -> perdure.Client:
        """The engine's client."""
        return self.engine.client

    async def publish(self) -> None:
        """Publish the workflows; to be called once."""
        await self.tours.publish()
        for document in (HELD_WORKFLOW, CHILD_WORKFLOW, PARENT_WORKFLOW, TURNS_WORKFLOW):
            await self.client.publish_workflow(document)
        await self.client.publish_workflow(HELD_WORKFLOW)
        for document in (AWAITING_WORKFLOW, EFFECT_WORKFLOW, DOUBT_WORKFLOW):
            await self.client.publish_workflow(document)

    async def start_turns(self) -> tuple[str, Holding, str, Holding]:
        """Start two runs of one exclusive key; return them when the first holds it."""
        ahead, behind = [Holding.within(self.place.directory) for _ in range(2)]
        first = (await self.client.start_run("turns", ahead.given)).run_id
        second = (await self.client.start_run("turns", behind.given)).run_id
        await ahead.wait_running()
        return first, ahead, second, behind

    async def start_holding(self, workflow: str = "held") -> tuple[str, Holding]:
        """Start a run of a workflow that holds its first step, and return it when that runs."""
        holding = Holding.within(self.place.directory)
        run_id = (await self.client.start_run(workflow, holding.given)).run_id
        await holding.wait_running()
        return run_id, holding

    async def start_parent(self) -> tuple[str, Holding, Holding]:
        """Start a parent; return it when its own step runs, with what holds that and its child."""
        own, inside = (Holding.within(self.place.directory) for _ in range(2))
        given = {"own": own.given, "child": inside.given}
        run_id = (await self.client.start_run("parent", given)).run_id
        await own.wait_running()
        return run_id, own, inside

    async def start_awaiting(self) -> tuple[str, str]:
        """Start a run that waits for the signal `go` by a key; return the run and the key."""
        key = f"key-{uuid.uuid4()}"
        run_id = (await self.client.start_run("awaiting", {"key": key})).run_id
        return run_id, key

    async def start_effect(self) -> tuple[str, Path]:
        """Start a run whose handler adds a line to a file as an effect; return both."""
        made = self.place.directory / f"made-{uuid.uuid4()}"
        return (await self.client.start_run("effect", {"made": str(made)})).run_id, made

    async def start_doubt(self) -> tuple[str, str]:
        """Start a run with an effect that comes to wait for a person; return it and the key."""
        run_id = (await self.client.start_run("doubt")).run_id
        keys: list[str] = []

        async def waits() -> bool:
            listed = self.client.effects.list(run_id=run_id, status="needs_review")
            keys.extend([entry.effect.key async for entry in listed])
            return bool(keys)

        await eventually(waits, what="the effect waits for a person")
        return run_id, keys[0]

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

    async def ends(self, run_id: str) -> None:
        """See a run completed with one result for each step, and nothing left behind."""
        run = await ended(self.client, self.place, run_id, within=RUN_SECONDS)
        assert perdure.RunStatus.Name(run.status) == "RUN_STATUS_COMPLETED", run
        await assert_applied_once(self.place, [run_id])
        await assert_nothing_left(self.place)

    async def ends_with_one_child(self, run_id: str) -> None:
        """See a parent completed, and with it the one child that it has."""
        await self.ends(run_id)
        (child,) = [run async for run in self.client.list_runs(parent_run_id=run_id)]
        await self.ends(child.run_id)

    async def repair(self) -> None:
        """Let everything run again, whatever an entry that failed has left."""
        for token in self._tokens.iterdir():
            token.unlink()
        self.tours.let_go()
        for name in self.engine.supervisor.names:
            if self.engine.supervisor.pid(name) is None:
                await self.start_again(name)
            else:
                self.engine.send_signal(name, signal.SIGCONT)
