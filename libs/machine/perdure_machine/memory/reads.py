"""What the engine in memory tells: its lists of work, and the rows of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from uuid import UUID

from perdure_machine.actions import RecordDecision, RecordHistory
from perdure_machine.lanes import Lane
from perdure_machine.mailbox import SignalState
from perdure_machine.memory.connections import Connections
from perdure_machine.memory.exclusive import ExclusiveKeys
from perdure_machine.memory.lists import (
    DeadLetter,
    DueTimer,
    ExpiredLease,
    QueuedStep,
    Stuck,
    dead_letters,
    due_timers,
    expired_leases,
    old_runs,
    queued_steps,
    sorted_timers,
    stuck,
)
from perdure_machine.memory.post import Post, Undelivered
from perdure_machine.memory.rows import RunRow, TimerRow
from perdure_machine.memory.views import attempts_of
from perdure_machine.migration import Told
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.view import AttemptState, ChildState, EffectState, RunState, StepState


class Reads:
    """The rows of the engine in memory, for those who only read them."""

    def __init__(self, now: float, lanes: Mapping[str, Lane], retention: float) -> None:
        self.now = now
        self.lanes = lanes
        self._runs: dict[UUID, RunRow] = {}
        self._post = Post(retention)
        self._exclusive = ExclusiveKeys(self._is_open)
        self._timer_ids = count(1)
        self.connections = Connections(self._runs, self._timer_ids)

    def queued_steps(self) -> list[QueuedStep]:
        """Return what workers may acquire."""
        return queued_steps(self._runs.values())

    def timers(self) -> list[TimerRow]:
        """Return all timers, the earliest first."""
        return sorted_timers(self._runs.values())

    def due_timers(self) -> list[DueTimer]:
        """Return the timers to fire now, internal events among them."""
        return due_timers(self._runs.values(), self.now)

    def expired_leases(self) -> list[ExpiredLease]:
        """Return the leases to take away now."""
        return expired_leases(self._runs.values(), self.now)

    def dead_letters(
        self, org: str, workflow: str | None = None, code: str | None = None
    ) -> list[DeadLetter]:
        """Return the dead letters of an org, those of the oldest runs first; None matches all."""
        return dead_letters(self._runs.values(), org, workflow, code)

    def undelivered_signals(self) -> list[Undelivered]:
        """Return what to submit `DeliverSignals` for: its second step never came."""
        return self._post.undelivered()

    def signals(self, run_id: UUID) -> list[SignalState]:
        """Return the signals of a run that nobody has taken, the oldest first."""
        return [
            row.signal
            for row in self._post.letters
            if row.run_id == run_id and row.taken_by is None
        ]

    def migrations(self, run_id: UUID) -> list[Told]:
        """Return what became of a run in each migration, in their order."""
        return list(self._runs[run_id].migrations.values())

    def old_runs(self) -> list[UUID]:
        """Return the unfinished runs that passed their deadline or their age limit."""
        return old_runs(self._runs.values(), self.now)

    def no_way_forward(self) -> list[Stuck]:
        """Return what has no way forward; empty unless the engine is at fault (R10)."""
        waits, connections = self._post.waits, self.connections
        return stuck(self._runs, self._exclusive, self.lanes, self.now, waits, connections)

    def run(self, run_id: UUID) -> RunState:
        """Return a run with its payloads. Raises KeyError."""
        return self._runs[run_id].state

    def steps(self, run_id: UUID) -> list[StepState]:
        """Return a run's steps with their payloads, in the order of their numbers."""
        return [row.state for _, row in sorted(self._runs[run_id].steps.items())]

    def attempts(self, run_id: UUID) -> list[AttemptState]:
        """Return a run's finished acquisitions, in the order of their ends."""
        return list(attempts_of(self._runs[run_id]))

    def effects(self, run_id: UUID) -> list[EffectState]:
        """Return a run's effects, in the order of their keys."""
        return [row.at(self.now) for _, row in sorted(self._runs[run_id].effects.items())]

    def decisions(self, run_id: UUID) -> list[RecordDecision]:
        """Return what people have decided about effects of a run, in order."""
        return list(self._runs[run_id].decisions)

    def children(self, run_id: UUID) -> list[ChildState]:
        """Return a run's children, in the order of their steps."""
        return [child for _, child in sorted(self._runs[run_id].children.items())]

    def published(self, run_id: UUID) -> dict[str, bytes]:
        """Return what nodes of the run have published so far, by name."""
        row = self._runs[run_id]
        nodes = {step.state.node: step.state for step in row.steps.values()}
        return {
            node.publish: nodes[node.id].output or b"null"
            for node in row.definition.nodes.values()
            if node.publish is not None
            and node.id in nodes
            and nodes[node.id].status is StepStatus.COMPLETED
        }

    def history(self, run_id: UUID) -> list[RecordHistory]:
        """Return the lines of a run's history."""
        return [row.line for row in self._runs[run_id].history]

    def _is_open(self, run_id: UUID) -> bool:
        row = self._runs.get(run_id)
        return row is not None and row.state.status is RunStatus.RUNNING
