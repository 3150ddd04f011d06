"""The plain end of a run by a timer, decided at once: its last wait is over, and with it the run.

`decide` does the same from a loaded view; see `hand_over`. What is not this plain case gives None.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure_machine.decide.hand_over import goes_on
from perdure_machine.decide.last_report import LINES, ends_run, output_of_run
from perdure_machine.definition.model import Definition, Wait
from perdure_machine.places import TOP
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied
from perdure_machine.states import RunStatus, StepStatus, TimerKind
from perdure_machine.transitions import Move, moved
from perdure_machine.view import RunState, StepState, TimerState

NOTHING = b"null"
"""What a wait gives to the nodes behind it."""


@dataclass(frozen=True, slots=True)
class LastWait:
    """What a timer leads to: the run and its step as they will be."""

    run: RunState
    ended: StepState
    timer_id: int

    @property
    def reply(self) -> Applied:
        """What is told of the delivery."""
        return Applied()


def last_wait(
    definition: Definition, run: RunState, step: StepState, timer: TimerState
) -> LastWait | None:
    """Return what a timer leads to; `run` and `step` are as the latest revision left them."""
    node = definition.nodes[step.node] if step.node in definition.last else None
    if node is None or not isinstance(node.kind, Wait) or not _is_awaited(step, timer):
        return None
    if not (goes_on(run) and ends_run(definition, run)):
        return None
    output = output_of_run(definition, run, step, NOTHING)
    if output is None:
        return None
    ended_nodes = run.ended_nodes + 1
    rank = ended_nodes + run.inner_ended
    ended = replace(moved(step, Move.END_WAIT), output=NOTHING, ended_rank=rank, compensable=False)
    after = replace(
        run,
        status=RunStatus.COMPLETED,
        output=output,
        revision=run.revision + 1,
        generation=run.generation + 1,
        ended_nodes=ended_nodes,
        next_seq=run.next_seq + LINES,
    )
    return LastWait(after, ended, timer.timer_id)


def _is_awaited(step: StepState, timer: TimerState) -> bool:
    """Tell whether the timer is due and the one that the step of the top scope waits for."""
    is_due = timer.kind is TimerKind.WAIT and timer.step == step.step and timer.remaining <= 0
    is_plain = step.place == TOP and step.compensates is None and not step.undecided
    return is_due and is_plain and step.status is StepStatus.WAITING and not step.stopping
