"""The working copy of one decision: the view as it will be, and the actions that make it so."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from perdure_machine.actions import (
    Action,
    DropTimer,
    PutEffect,
    PutRun,
    PutStep,
    RecordAttempt,
    RecordHistory,
)
from perdure_machine.definition.graph import reachable
from perdure_machine.definition.model import Definition, Node, OnError
from perdure_machine.events import Offer, Queue
from perdure_machine.lanes import Lane
from perdure_machine.replies import Granted, Reply
from perdure_machine.states import AttemptOutcome, RunStatus, StepStatus
from perdure_machine.view import (
    AttemptState,
    EffectState,
    NodeError,
    RunState,
    StepState,
    View,
    lacking_nodes,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What an event does: the actions to write, the view they lead to, the sender's answer."""

    view: View
    actions: tuple[Action, ...]
    reply: Reply


class Draft:
    """Collects the actions of one event. Lives for one call of `decide` and is never shared.

    `candidates` are the nodes to decide on next, because something that they need has ended.
    """

    def __init__(self, definition: Definition, lanes: Mapping[str, Lane], view: View) -> None:
        self.definition = definition
        self.lanes = lanes
        self.view = view
        self.run = view.run
        self.steps = dict(view.steps)
        self.effects = dict(view.effects)
        self.attempts = list(view.attempts)
        self.timers = dict(view.timers)
        self.actions: list[Action] = []
        self.chained: Granted | None = None
        self.candidates: deque[str] = deque()
        self._offer: Offer | None = None
        self._by_node = {step.node: step.step for step in view.steps.values()}
        self._ended = False
        self._age: float | None = None
        self._descendants: frozenset[str] | None = None

    @property
    def running(self) -> bool:
        """Whether the run still goes on."""
        return self.run.status is RunStatus.RUNNING

    def stops(self, node: str) -> bool:
        """Tell whether the node is stopped: its run fails, and it does not descend from what did.

        The first failure that nothing caught is what counts, whatever fails after it.
        """
        error = self.run.error
        if error is None or not self.running or self.definition.on_error is not OnError.STOP:
            return False
        if self._descendants is None:
            nodes = self.definition.nodes
            dependents = {id_: one.dependents for id_, one in nodes.items()}
            self._descendants = reachable([error.node], dependents) | {error.node}
        return node not in self._descendants

    def node(self, step: StepState) -> Node:
        """Return the vertex that the step activates."""
        return self.definition.nodes[step.node]

    def lane(self, step: StepState) -> Lane:
        """Return the settings of the lane that the step runs on."""
        assert step.lane is not None
        return self.lanes[step.lane]

    def step_of(self, node: str) -> StepState | None:
        """Return the step of a node of the top scope, or None if it has none yet.

        Raises `ViewTooNarrow` where the view does not tell.
        """
        self.require({node})
        number = self._by_node.get(node)
        return self.steps[number] if number is not None else None

    def require(self, states: Iterable[str], outputs: Iterable[str] = ()) -> None:
        """See that the view tells of these nodes' steps, and of the outputs of some of them.

        Raises `ViewTooNarrow` for all that is missing at once, because each request is a query.
        """
        outputs = frozenset(outputs)
        lacking = self.unknown(states, outputs)
        if lacking:
            raise lacking_nodes(lacking, lacking & outputs)

    def unknown(self, states: Iterable[str], outputs: Iterable[str] = ()) -> frozenset[str]:
        """Return the nodes whose step, or for `outputs` its output, the view does not tell."""
        lacking = {node for node in states if self._lacks(node)}
        return frozenset(lacking | {node for node in outputs if self._lacks(node, output=True)})

    def _lacks(self, node: str, *, output: bool = False) -> bool:
        number = self._by_node.get(node)
        if number is None:
            return node not in self.view.known_nodes
        step = self.steps[number]
        return output and step.status is StepStatus.COMPLETED and step.output is None

    def offer(self, offer: Offer | None) -> None:
        """Let the reporter be handed one of the steps that begin now."""
        self._offer = offer

    def take_offer(self, queue: Queue) -> Offer | None:
        """Return the reporter's offer if it serves `queue`; the first step that asks gets it."""
        offer = self._offer
        if offer is None or queue not in offer.queues:
            return None
        self._offer = None
        return offer

    def new_step_number(self) -> int:
        """Take the next step number of the run."""
        number = self.run.next_step
        self.run = replace(self.run, next_step=number + 1)
        return number

    def put_step(self, action: PutStep) -> StepState:
        """Write a step, new or changed."""
        self.steps[action.step.step] = action.step
        self._by_node[action.step.node] = action.step.step
        self.actions.append(action)
        return action.step

    def end_node(self, action: PutStep) -> StepState:
        """Write a step of the running run that ended just now; its dependents are candidates."""
        rank = self.run.ended_nodes + 1
        self.run = replace(self.run, ended_nodes=rank)
        self.candidates.extend(self.node(action.step).dependents)
        return self.put_step(replace(action, step=replace(action.step, ended_rank=rank)))

    def drop_timer(self, timer_id: int) -> None:
        """Delete a timer that was delivered or is void."""
        del self.timers[timer_id]
        self.actions.append(DropTimer(timer_id))

    def put_effect(self, effect: EffectState, *, created: bool = False) -> EffectState:
        """Write an effect, new or changed."""
        self.effects[effect.key] = effect
        self.actions.append(PutEffect(effect, created))
        return effect

    def end_attempt(
        self,
        step: StepState,
        outcome: AttemptOutcome,
        *,
        error: NodeError | None = None,
        next_step: int | None = None,
    ) -> None:
        """Record that the step's newest acquisition ended."""
        assert step.lease_id is not None
        assert step.worker is not None
        self.attempts.append(AttemptState(step.step, step.fence, step.lease_id, outcome, next_step))
        self.actions.append(
            RecordAttempt(
                step.step, step.fence, step.lease_id, step.worker, outcome, error, next_step
            )
        )

    def record(
        self, kind: str, step: StepState | None = None, **details: str | int | float
    ) -> None:
        """Add a line to the run's history."""
        seq = self.run.next_seq
        self.run = replace(self.run, next_seq=seq + 1)
        if step is None:
            self.actions.append(RecordHistory(seq, kind, details=details))
            return
        fence = step.fence or None
        self.actions.append(
            RecordHistory(seq, kind, step.step, fence, {"node": step.node, **details})
        )

    def age_limit(self, seconds: float | None) -> None:
        """Limit the age of a new run."""
        self._age = seconds

    def end_run(self, run: RunState) -> None:
        """Put the run into a final state."""
        self.run = replace(run, generation=run.generation + 1)
        self._ended = True

    def decision(self, reply: Reply) -> Decision:
        """Finish: a decision that changes anything raises the run's revision (R1)."""
        if self.actions:
            self.run = replace(self.run, revision=self.run.revision + 1)
            self.actions.append(PutRun(self.run, ended=self._ended, age=self._age))
        return Decision(self._result(), tuple(self.actions), reply)

    def _result(self) -> View:
        return replace(
            self.view,
            run=self.run,
            steps=self.steps,
            attempts=tuple(self.attempts),
            effects=self.effects,
            timers=self.timers,
            unfinished=None,
        )
