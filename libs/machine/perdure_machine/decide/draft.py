"""The working copy of one decision: the view as it will be, and the actions that make it so."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.actions import (
    Action,
    DropDeadLetter,
    DropStepTimers,
    DropTimer,
    FreeSlot,
    Instant,
    LetTimersGo,
    PutBlock,
    PutChild,
    PutEffect,
    PutRun,
    PutScope,
    PutStep,
    RecordAttempt,
    RecordHistory,
    SetTimer,
    Settle,
)
from perdure_machine.budgets import CostState, Spending
from perdure_machine.decide.redacting import redacted
from perdure_machine.decide.sight import Sight
from perdure_machine.definition.model import ChildRun, Definition
from perdure_machine.erasure import LATE, first_place
from perdure_machine.events import Offer, Queue
from perdure_machine.lanes import Lane
from perdure_machine.places import TOP, At, Place
from perdure_machine.replacing import replace
from perdure_machine.replies import Granted, Reply
from perdure_machine.states import (
    AttemptOutcome,
    ChildStatus,
    ParentEnd,
    RunLimit,
    RunStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.view import (
    AttemptState,
    BlockState,
    ChildState,
    EffectState,
    NodeError,
    RunState,
    ScopeState,
    StepState,
    View,
    ViewTooNarrow,
    Wanted,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What an event does: the actions to write, the view they lead to, the sender's answer."""

    view: View
    actions: tuple[Action, ...]
    reply: Reply


class Draft(Sight):
    """Collects the actions of one event. Lives for one call of `decide` and is never shared.

    `candidates` are the nodes to decide on next, because something that they need has ended;
    `touched` the scopes in which a node ended, so that they may have ended themselves; `changed`
    the steps that it wrote, in order; `lost` are nodes that are cancelled because the join that
    each names was decided without them.
    """

    def __init__(self, definition: Definition, lanes: Mapping[str, Lane], view: View) -> None:
        super().__init__(definition, lanes, view)
        self.attempts = list(view.attempts)
        self.timers = dict(view.timers)
        self.children = dict(view.children)
        self.costs = dict(view.costs)
        self.spending, self.budgets = view.spending, view.budgets
        self.paid: int | None = None  # what the reporter of a try told that it cost
        self.did_nothing = False  # the reporter told that the try certainly did nothing outside
        self.mail = view.mail
        self.connections = dict(view.connections)
        self.actions: list[Action] = []
        self.chained: Granted | None = None
        self.candidates: deque[At] = deque()
        self.touched: dict[Place, None] = {}
        self.changed: dict[int, None] = {}
        self.lost: dict[At, str] = {}
        self.queue = view.queue
        self._offer: Offer | None = None
        self._ended = self._reopened = False
        self._limits: Mapping[RunLimit, float] = {}
        self._start: Instant | None = None
        self._leaves_children = False

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
        """Write a step, new or changed; one that ends needs no deadline any more.

        The node of one that ends may be gone, by a migration.
        """
        node = self.definition.nodes.get(action.step.node)
        if action.ended and (node is None or node.deadline is not None):
            self.actions.append(DropStepTimers(action.step.step))
        self.steps[action.step.step] = action.step
        self._by_node[action.step.at] = action.step.step
        self.changed[action.step.step] = None
        self.actions.append(action)
        return action.step

    def put_scope(self, scope: ScopeState, *, begins: bool = False) -> ScopeState:
        """Write a scope; none of the nodes of one that `begins` has a step."""
        self.scopes[scope.place] = scope
        if begins:
            self._known_places.add(scope.place)
        self.actions.append(PutScope(scope))
        return scope

    def put_block(self, block: BlockState) -> BlockState:
        """Write the counters of a step that holds a sub-graph."""
        self.blocks[block.step] = block
        self.actions.append(PutBlock(block))
        return block

    def end_node(self, action: PutStep) -> StepState:
        """Write a step of the running run that ended just now; its dependents are candidates."""
        at, place = action.step.at, action.step.place
        self._leaves_children |= self._leaves_child(action.step)
        if not self.running:
            return self._end_aside(action)
        if place == TOP:
            self.run = replace(self.run, ended_nodes=self.run.ended_nodes + 1)
        else:
            scope = self.scope(place)
            self.put_scope(replace(scope, ended_nodes=scope.ended_nodes + 1))
            self.run = replace(self.run, inner_ended=self.run.inner_ended + 1)
        self.touched[place] = None
        self.candidates.extend(at._replace(node=one) for one in self.node(action.step).dependents)
        return self._put_ranked(action)

    def _end_aside(self, action: PutStep) -> StepState:
        """Write a step that ended while its run ends: nothing follows from it."""
        if action.step.place == TOP and action.step.compensates is None:
            self.run = replace(self.run, ended_nodes=self.run.ended_nodes + 1)
        else:
            self.run = replace(self.run, inner_ended=self.run.inner_ended + 1)
        return self._put_ranked(action)

    def end_stopped(self, action: PutStep) -> StepState:
        """Write a step that ended inside of a sub-graph that stops: nothing follows from it."""
        self._leaves_children |= self._leaves_child(action.step)
        self.run = replace(self.run, inner_ended=self.run.inner_ended + 1)
        self.touched[action.step.place] = None
        return self._put_ranked(action)

    def _put_ranked(self, action: PutStep) -> StepState:
        rank = self.run.ended_steps + self.run.recounted
        compensable = self._may_be_compensated(action.step)
        ranked = replace(action.step, ended_rank=rank, compensable=compensable)
        return self.put_step(replace(action, step=ranked))

    def _may_be_compensated(self, step: StepState) -> bool:
        """Tell whether the step did what its compensation is for; a stand-in did nothing."""
        node = self.definition.nodes.get(step.node)
        if node is None or node.undo is None:
            return False
        completed = step.status is StepStatus.COMPLETED and step.error is None
        return completed or (node.undo_attempted and (step.fence > 0 or completed))

    def _leaves_child(self, step: StepState) -> bool:
        """Tell whether a step ends whose child may run on."""
        if step.kind != ChildRun.name or step.step not in self.steps:
            return False
        child = self.children.get(step.step)
        is_open = child is None or child.open
        return is_open and step.status is not StepStatus.COMPLETED and self.run.open_children > 0

    def put_child(self, child: ChildState) -> None:
        """Write a child, new or changed, and keep count of those that matter for the run's end."""
        before = self.children.get(child.step)
        more = child.open - (before is not None and before.open)
        if child.on_parent_end is ParentEnd.CANCEL:
            self.run = replace(self.run, open_children=self.run.open_children + more)
        elif child.on_parent_end is ParentEnd.WAIT:
            self.run = replace(self.run, awaited_children=self.run.awaited_children + more)
            self.touched[TOP] = None
        self.children[child.step] = child
        self.actions.append(PutChild(child))
        self._erase_late_child(child)

    def _erase_late_child(self, child: ChildState) -> None:
        """Have a child erased of which an erased run hears only now; it was given its payloads."""
        if self.run.erased and child.run_id is not None and child.status is ChildStatus.RUNNING:
            details = first_place(LATE).encoded()
            timer = SetTimer(TimerKind.ERASE, None, 0.0, details=details, to=child.run_id)
            self.actions.append(timer)

    def drop_timer(self, timer_id: int) -> None:
        """Delete a timer that was delivered or is void."""
        del self.timers[timer_id]
        self.actions.append(DropTimer(timer_id))

    def put_effect(
        self, effect: EffectState, *, created: bool = False, lease_for: float | None = None
    ) -> EffectState:
        """Write an effect, new or changed, in flight for `lease_for` seconds where it is begun."""
        self.effects[effect.key] = effect
        self.actions.append(PutEffect(effect, created, lease_for))
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
        node = self.definition.nodes.get(step.node)
        if node is not None and node.connection is not None:
            self.actions.append(FreeSlot(step.step, step.lease_id))
        if node is not None and node.cost is not None:
            self._settle(step, outcome)

    def _settle(self, step: StepState, outcome: AttemptOutcome) -> None:
        """Settle what was set aside for a try: what it told, else the estimate.

        One that was handed back, or certainly did nothing, costs nothing. Raises `ViewTooNarrow`.
        """
        cost, spending = self.costs_of(step)
        paid = self.paid
        if paid is None:
            is_free = outcome is AttemptOutcome.RELEASED or self.did_nothing
            paid = 0 if is_free else cost.reserved
        self.costs[step.step] = replace(cost, reserved=0, spent=cost.spent + paid)
        self.spending = Spending(spending.spent + paid, spending.reserved - cost.reserved)
        self.actions.append(Settle(step.step, step.fence, cost.reserved, paid))

    def costs_of(self, step: StepState) -> tuple[CostState, Spending]:
        """Return what a step costs and what the run has spent. Raises `ViewTooNarrow`."""
        if step.step not in self.costs or self.spending is None:
            raise ViewTooNarrow(Wanted(costs=frozenset({step.step})))
        return self.costs[step.step], self.spending

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

    def record_order(self, kind: str, reason: str, actor: str) -> None:
        """Add a line on what somebody ordered; the actor is told where somebody is named."""
        if actor:
            self.record(kind, reason=reason, actor=actor)
        else:
            self.record(kind, reason=reason)

    def limit_run(self, limits: Mapping[RunLimit, float]) -> None:
        """Limit the time of a run that begins, in seconds from now on."""
        self._limits = limits

    def start_at(self, start: Instant) -> None:
        """Say when a new run is to begin."""
        self._start = start

    def end_run(self, run: RunState) -> None:
        """Put the run into a final state; what a pause held back is delivered, and void."""
        if run.paused:
            self.actions.append(LetTimersGo(None))
        self.run = replace(run, generation=run.generation + 1, paused=False)
        if run.exclusive_key is not None:
            self.actions.append(SetTimer(TimerKind.HAND_OVER, None, 0.0))
        self._ended = True
        self._leaves_children |= run.open_children > 0

    def reopen_run(self) -> None:
        """Have a failed run go on."""
        self.run = replace(
            self.run, status=RunStatus.RUNNING, error=None, generation=self.run.generation + 1
        )
        self._reopened = True
        self.drop_dead_letter()

    def drop_dead_letter(self) -> None:
        """Have the run be a dead letter no more."""
        if self.run.dead_lettered:
            self.run = replace(self.run, dead_lettered=False)
            self.actions.append(DropDeadLetter())

    def reopen_step(self, step: StepState) -> None:
        """Have the node of an ended step of the top scope decided again."""
        if step.ended_rank is not None:
            ended, again = self.run.ended_nodes - 1, self.run.recounted + 1
            self.run = replace(self.run, ended_nodes=ended, recounted=again)
        # The key of a child run counts failures: a retry gets another child.
        starts_another = isinstance(self.node(step).kind, ChildRun)
        marked = replace(
            step,
            undecided=True,
            failures=step.failures + 1 if starts_another else 0,
            losses=0,
            output=None,
            error=None,
            taken=None,
            ended_rank=None,
            stopping=False,
        )
        self.put_step(PutStep(marked))

    def count_late(self, step: StepState) -> None:
        """Count a step that completed after its run had ended, now that the run goes on."""
        self.run = replace(self.run, ended_nodes=self.run.ended_nodes + 1)
        self._put_ranked(PutStep(step))

    def decision(self, reply: Reply) -> Decision:
        """Finish: a decision that changes anything raises the run's revision (R1)."""
        if self._leaves_children:
            self.actions.append(SetTimer(TimerKind.LEAVE_CHILDREN, None, 0.0))
        if self.actions:
            self.run = replace(self.run, revision=self.run.revision + 1)
            put = PutRun(self.run, self._ended, self._limits, self._start, self._reopened)
            self.actions.append(put)
        written = redacted(self.actions) if self.run.erased else self.actions
        return Decision(self._result(), tuple(written), reply)

    def _result(self) -> View:
        return replace(
            self.view,
            run=self.run,
            steps=self.steps,
            attempts=tuple(self.attempts),
            effects=self.effects,
            timers=self.timers,
            unfinished=None,
            reopening=None,
            compensable=None,
            scopes=self.scopes,
            blocks=self.blocks,
            known_places=frozenset(self._known_places),
            open_inside={},
            children=self.children,
            costs=self.costs,
            spending=self.spending,
            budgets=self.budgets,
            leaving=None,
            rows={},
            absent_scopes=frozenset(),
            mail=self.mail,
            connections=self.connections,
        )
