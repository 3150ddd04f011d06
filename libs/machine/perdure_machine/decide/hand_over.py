"""The most frequent decision, taken at once: a step ended well, the reporter goes on with its heir.

`decide` does the same from a loaded view, at several times the cost; for every event that this
function decides on, it decides the same (tests compare the two value by value). What is not this
plain case gives None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_runtime.errors import InvalidArgument

from perdure_machine.decide.naming import effect_prefix
from perdure_machine.decide.reporting import MAX_OUTPUT_DEPTH
from perdure_machine.decide.scope import run_facts
from perdure_machine.definition.model import Definition, Node, Task
from perdure_machine.events import Offer, Queue, Report, Succeeded
from perdure_machine.expressions import ExpressionFailed, NodeValue, Scope, render
from perdure_machine.expressions.reads import INPUT
from perdure_machine.lanes import Lane
from perdure_machine.payload import check_payload
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied, Granted
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import RunState, StepState

_BEGUN = StepState(0, "", "", StepStatus.RUNNING, fence=1)
"""What every heir begins as; most of its fields stay as they are here."""

LINES = 2
"""Lines of history of a hand-over: the step completed, its heir was leased."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a report leads to: the run and the step that ended as they will be, the heir's lease.

    `try_for` is the heir's timeout in seconds, None without one.
    """

    run: RunState
    ended: StepState
    granted: Granted
    try_for: float | None

    @property
    def reply(self) -> Applied:
        """What the reporter is told."""
        return Applied(self.granted)


def hand_over(
    definition: Definition, lanes: Mapping[str, Lane], run: RunState, step: StepState, event: Report
) -> HandOver | None:
    """Return what a report leads to; None where that takes more than the run and the step to tell.

    `run` and `step` are as the run's latest revision left them.
    """
    offer, outcome, heir = event.offer, event.outcome, definition.heirs.get(step.node)
    if heir is None or offer is None or not isinstance(outcome, Succeeded):
        return None
    node = definition.nodes[heir]
    if not (goes_on(run) and is_held(step, event) and _may_begin(definition, run, node, offer)):
        return None
    payload = _heirs_input(run, step, node, outcome.output)
    if payload is None:
        return None
    ended_nodes = run.ended_nodes + 1
    after = replace(
        run,
        ended_nodes=ended_nodes,
        next_step=run.next_step + 1,
        next_seq=run.next_seq + LINES,
    )
    ended = replace(
        moved(step, Move.COMPLETE),
        output=outcome.output,
        error=None,
        ended_rank=ended_nodes + run.inner_ended,
        compensable=False,
    )
    granted = _granted(lanes, after, node, payload, offer)
    written = replace(after, revision=run.revision + 1)
    return HandOver(written, ended, granted, node.timeout)


def goes_on(run: RunState) -> bool:
    """Tell whether nothing holds the run up or has ended it; `generation` counts ends."""
    is_open = run.status is RunStatus.RUNNING and run.generation == 0 and run.ending is None
    return is_open and run.error is None and not (run.paused or run.pending or run.erased)


def is_held(step: StepState, event: Report) -> bool:
    """Tell whether the report is its holder's on a step of the top scope that nobody stops."""
    if (step.step, step.fence, step.lease_id) != (event.step, event.fence, event.lease_id):
        return False
    is_plain = step.place == TOP and step.compensates is None and not step.undecided
    return is_plain and step.status is StepStatus.RUNNING and not step.stopping


def _may_begin(definition: Definition, run: RunState, node: Node, offer: Offer) -> bool:
    has_room = run.next_step <= definition.limits.steps
    return has_room and Queue(node.lane, run.org) in offer.queues


def _heirs_input(run: RunState, step: StepState, node: Node, output: bytes) -> bytes | None:
    """Return what the heir is given; None where the output, or a template, is not as it should."""
    assert isinstance(node.kind, Task)
    try:
        check_payload(output, "output", len(output), MAX_OUTPUT_DEPTH)
        template = node.kind.input
        if template is None:
            return run.input
        if template.constant is not None:
            return template.constant
        if run.input is None and any(read.root == INPUT for read in template.reads):
            return None
        ended = NodeValue(StepStatus.COMPLETED, output, None)
        return render(
            template, Scope(run.input or b"", {step.node: ended}, run_facts(run, template.reads))
        )
    except (InvalidArgument, ExpressionFailed):
        return None


def _granted(
    lanes: Mapping[str, Lane], run: RunState, node: Node, payload: bytes, offer: Offer
) -> Granted:
    assert isinstance(node.kind, Task)
    lease_for = lanes[node.lane].hand_out
    if node.timeout is not None:
        lease_for = min(lease_for, node.timeout)
    begun = replace(
        _BEGUN,
        step=run.next_step - 1,
        node=node.id,
        kind=node.kind.name,
        lane=node.lane,
        owner=run.org,
        priority=max(-100, min(100, run.priority + node.priority)),
        lease_id=offer.lease_id,
        worker=offer.worker,
        effect_prefix=effect_prefix(run, TOP, node),
        input=payload,
        traceparent=run.traceparent,
        lease_left=lease_for,
    )
    return Granted(run, begun, lease_for, node.timeout, node.kind.handler, None)
