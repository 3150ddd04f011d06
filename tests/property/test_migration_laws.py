"""A migration to a version that says the same changes nothing but names, whenever it comes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import given, note, settings
from hypothesis import strategies as st
from perdure_machine.definition.parse import parse
from perdure_machine.events import Acquire, Failed, FireTimer, Report, Succeeded
from perdure_machine.memory import MemoryEngine
from perdure_machine.migration import MigrationOutcome
from perdure_machine.node_error import ErrorClass
from perdure_machine.replies import Granted
from perdure_machine.states import RunStatus, TimerKind
from perdure_machine.view import NodeError
from perdure_testkit.engines.workflows import INPUTS, documents

ORG = "acme"
MAX_MOVES = 300


@dataclass(frozen=True, slots=True)
class Versions:
    """A document, another that says the same, and what becomes of its nodes."""

    old: bytes
    new: bytes
    nodes: dict[str, str]


@st.composite
def versions(draw: st.DrawFn) -> Versions:
    document = draw(documents())
    ids = sorted(parse(document, known_lanes=frozenset({"io", "slow"})).nodes)
    renamed = draw(st.sets(st.sampled_from(ids)))
    text = document.decode()
    for id_ in renamed:
        text = text.replace(id_, id_.replace("n", "m"))
    new = json.loads(text)
    new["limits"]["age"] = "2d"
    return Versions(document, json.dumps(new).encode(), {i: i.replace("n", "m") for i in renamed})


class Play:
    """One run on an engine of its own, moved by the same choices as another's."""

    def __init__(self, both: Versions, payload: bytes) -> None:
        self.engine = MemoryEngine()
        self.engine.publish(ORG, both.old)
        self.run = self.engine.start(ORG, "flow", payload).run_id
        self.engine.publish(ORG, both.new)
        self.leases = count(1)

    @property
    def is_over(self) -> bool:
        return self.engine.run(self.run).status is not RunStatus.RUNNING

    def move(self, choice: int) -> None:
        """Deliver a due timer, else do a queued step as `choice` says, else let time pass."""
        due = self.engine.due_timers()
        queued = self.engine.queued_steps()
        if due:
            self.engine.submit(ORG, self.run, FireTimer(due[0].timer_id))
        elif queued:
            self._work(queued[choice % len(queued)].step, well=choice % 3 > 0)
        else:
            waits = [timer.due_at - self.engine.now for timer in self.engine.timers()]
            self.engine.advance(max(0.0, min(waits)))

    def _work(self, step: int, *, well: bool) -> None:
        lease = UUID(int=next(self.leases))
        reply = self.engine.submit(ORG, self.run, Acquire(step, lease, "worker"))
        if isinstance(reply, Granted):
            error = NodeError(ErrorClass.PERMANENT, "BROKEN", "it broke")
            outcome = Succeeded(b'{"n": 1}') if well else Failed(error)
            self.engine.submit(ORG, self.run, Report(step, reply.step.fence, lease, outcome))

    def finish(self, choices: list[int]) -> None:
        for number in range(MAX_MOVES):
            if self.is_over:
                return
            self.move(choices[number % len(choices)])
        raise AssertionError("the run goes on for ever")

    def migrate(self, nodes: dict[str, str]) -> MigrationOutcome:
        self.engine.migrate(ORG, "flow", 1, 2, nodes=nodes)
        (timer,) = [one for one in self.engine.timers() if one.timer.kind is TimerKind.MIGRATE]
        self.engine.submit(ORG, self.run, FireTimer(timer.timer_id))
        return self.engine.migrations(self.run)[-1].outcome

    def result(self, nodes: dict[str, str]) -> Any:
        """Return all that counts of the run, under the new names."""
        steps = {
            nodes.get(one.node, one.node): (one.status, one.output, one.failures, one.fence)
            for one in self.engine.steps(self.run)
        }
        run = self.engine.run(self.run)
        error = (run.error.code, nodes.get(run.error.node, run.error.node)) if run.error else None
        effects = [(renamed(one.key, nodes), one.status) for one in self.engine.effects(self.run)]
        return run.status, error, run.ended_steps, steps, effects


def renamed(key: str, nodes: dict[str, str]) -> str:
    """Return the key that an effect has whose step was queued after the migration."""
    run, node, name = key.split("/")
    return f"{run}/{nodes.get(node, node)}/{name}"


@given(versions(), st.sampled_from(INPUTS), st.data())
@settings(max_examples=60, deadline=None)
def test_r11_a_migration_to_an_equal_version_changes_nothing_about_the_result(
    both: Versions, payload: bytes, data: st.DataObject
) -> None:
    choices = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=8))
    moment = data.draw(st.integers(0, 8))
    migrated, stayed = Play(both, payload), Play(both, payload)
    for number in range(moment):
        if not stayed.is_over:
            for one in (migrated, stayed):
                one.move(choices[number % len(choices)])
    if stayed.is_over:
        return
    is_failing = stayed.engine.run(stayed.run).error is not None
    outcome = migrated.migrate(both.nodes)
    note(migrated.engine.migrations(migrated.run))
    assert outcome is (MigrationOutcome.REFUSED if is_failing else MigrationOutcome.MIGRATED)
    later = choices[moment % len(choices) :] + choices[: moment % len(choices)]
    migrated.finish(later)
    stayed.finish(later)
    names = {} if is_failing else both.nodes
    assert migrated.result(names) == stayed.result(names)
    assert migrated.engine.no_way_forward() == []
