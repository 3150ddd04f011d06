"""The plain beginning of a run, taken at once: its one first task is queued, and then leased.

`decide_start` and `decide` do the same from a view, at several times the cost; whatever these
functions decide on, they decide the same (tests compare the two value by value). What is not this
plain case gives None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.actions import PutRun, PutStep, RecordHistory
from perdure_machine.changes import Changes, MailChanges, StepChange
from perdure_machine.decide.hand_over import goes_on
from perdure_machine.decide.naming import effect_prefix
from perdure_machine.decide.scope import run_facts
from perdure_machine.decide.start import new_run
from perdure_machine.definition.model import Definition, Node, Task
from perdure_machine.events import Acquire, Start
from perdure_machine.expressions import ExpressionFailed, Scope, render
from perdure_machine.lanes import Lane
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Granted
from perdure_machine.states import RunLimit, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import RunState, StepState

_FIRST = 1
"""The number of a run's first step, and of the first line of its history."""


def start_plainly(definition: Definition, event: Start) -> Changes | None:
    """Return all that a start writes; `event` is as `check_start` returned it."""
    if definition.first is None or not _begins_at_once(definition, event):
        return None
    node, run = definition.nodes[definition.first], new_run(definition, event)
    payload = _input(run, node)
    if payload is None:
        return None
    step = _queued(run, node, payload)
    after = replace(run, revision=1, next_step=_FIRST + 1, next_seq=_FIRST + 2)
    age = definition.limits.age
    return Changes(
        before=None,
        run=PutRun(after, limits={} if age is None else {RunLimit.AGE: age}),
        steps=(StepChange(PutStep(step), None),),
        enqueue=(step,),
        history=(
            RecordHistory(_FIRST, "run_started", details=_whose(run)),
            RecordHistory(_FIRST + 1, "step_queued", step.step, None, {"node": step.node}),
        ),
        dequeue=(), set_timers=(), drop_timers=(), hold_timers=(), let_timers_go=(),
        drop_step_timers=(), drop_run_timers=(), key_moves=(), attempts=(), effects=(),
        children=(), mail=MailChanges(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TakeUp:
    """The lease of a run's first step; `run` is as it will be."""

    run: RunState
    granted: Granted

    @property
    def reply(self) -> Granted:
        """What the asker is told."""
        return self.granted


def take_up(
    definition: Definition,
    lanes: Mapping[str, Lane],
    run: RunState,
    step: StepState,
    event: Acquire,
) -> TakeUp | None:
    """Return the lease of the first step; `run` and `step` are as the start left them."""
    is_first = step.step == event.step and step.node == definition.first and step.fence == 0
    if not is_first or step.status is not StepStatus.QUEUED or not goes_on(run):
        return None
    node = definition.nodes[step.node]
    assert isinstance(node.kind, Task)
    lease_for = lanes[node.lane].hand_out
    if node.timeout is not None:
        lease_for = min(lease_for, node.timeout)
    taken = replace(
        moved(step, Move.ACQUIRE),
        fence=1,
        lease_id=event.lease_id,
        worker=event.worker,
        lease_left=lease_for,
    )
    after = replace(run, next_seq=run.next_seq + 1)
    granted = Granted(after, taken, lease_for, node.timeout, node.kind.handler, None)
    return TakeUp(replace(after, revision=run.revision + 1), granted)


def _begins_at_once(definition: Definition, event: Start) -> bool:
    is_bound = definition.deadline or definition.subject or definition.exclusive
    is_late = event.start is not None or event.signal is not None
    return is_bound is None and not is_late and definition.limits.steps >= _FIRST


def _input(run: RunState, node: Node) -> bytes | None:
    """Return what the task is given, None where its template fails."""
    assert isinstance(node.kind, Task)
    template = node.kind.input
    if template is None or template.constant is not None:
        return run.input if template is None else template.constant
    try:
        return render(template, Scope(run.input or b"", {}, run_facts(run, template.reads)))
    except ExpressionFailed:
        return None


def _queued(run: RunState, node: Node, payload: bytes) -> StepState:
    return StepState(
        _FIRST,
        node.id,
        node.kind.name,
        StepStatus.QUEUED,
        lane=node.lane,
        owner=run.org,
        priority=max(-100, min(100, run.priority + node.priority)),
        effect_prefix=effect_prefix(run, TOP, node),
        input=payload,
        traceparent=run.traceparent,
    )


def _whose(run: RunState) -> dict[str, str | int | float]:
    parent = run.parent
    if parent is None:
        return {}
    return {"parent_run_id": str(parent.run_id), "parent_step": parent.step}
