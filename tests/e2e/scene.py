"""What tests of the whole engine do: publish a document, start a run of it, see it end."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from perdure import Client, Run, RunStatus, Step
from perdure_testkit.engine import Engine
from perdure_testkit.holding import Holding
from perdure_testkit.place import Place
from perdure_testkit.provider import Provider
from perdure_testkit.verdict import ended

SHARED_ENGINE = pytest.mark.asyncio(loop_scope="session")
"""The `pytestmark` of tests that use the one engine: they run in its loop."""

END_SECONDS = 30.0

Document = dict[str, Any]

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Scene:
    """An engine that runs, and a provider outside of it."""

    engine: Engine
    provider: Provider

    @property
    def client(self) -> Client:
        """The engine's client."""
        return self.engine.client

    @property
    def place(self) -> Place:
        """Where the engine keeps its state."""
        return self.engine.place

    @property
    def environment(self) -> dict[str, str]:
        """What the `perdure` command is told of the engine."""
        return {
            "PERDURE_ADDRESS": self.client.address,
            "PERDURE_API_KEY": self.engine.api_key,
        }

    def new_path(self) -> str:
        """Return a path at the provider that nobody else calls."""
        return f"/calls/{next(_numbers)}"

    def new_holding(self) -> Holding:
        """Return files for a step that is to be held."""
        return Holding.within(self.place.directory)

    async def start(self, nodes: Document, given: object = None, **rest: Any) -> str:
        """Publish a workflow of these nodes, and of what else its document says; start a run."""
        name = f"e2e_{next(_numbers)}"
        await self.client.publish_workflow(json.dumps({"name": name, "nodes": nodes, **rest}))
        return (await self.client.start_run(name, given)).run_id

    async def ended(self, run_id: str, *, within: float = END_SECONDS) -> Run:
        """Return the run, with its payloads, when it has ended."""
        await ended(self.client, self.place, run_id, within=within)
        return await self.client.get_run(run_id)

    async def completed(self, run_id: str, *, within: float = END_SECONDS) -> Run:
        """Return the run when it has completed."""
        run = await self.ended(run_id, within=within)
        assert run.status == RunStatus.RUN_STATUS_COMPLETED, run
        return run


def step_of(run: Run, node: str) -> Step:
    """Return the step of a node."""
    (step,) = (step for step in run.steps if step.node == node)
    return step


def outcomes(step: Step) -> list[str]:
    """Return how each acquisition of a step ended, oldest first."""
    return [attempt.outcome for attempt in step.attempts]
