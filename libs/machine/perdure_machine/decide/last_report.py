"""The plain end of a run, decided at once: its last task ended well, and with it the run.

`decide` does the same from a loaded view; see `hand_over`. What is not this plain case gives None.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure_runtime.errors import InvalidArgument

from perdure_machine.decide.hand_over import goes_on, is_held
from perdure_machine.decide.reporting import MAX_OUTPUT_DEPTH
from perdure_machine.decide.scope import run_facts
from perdure_machine.definition.model import Definition
from perdure_machine.events import Report, Succeeded
from perdure_machine.expressions import ExpressionFailed, NodeValue, Scope, render
from perdure_machine.expressions.reads import INPUT
from perdure_machine.payload import check_payload
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import RunState, StepState

LINES = 2
"""Lines of history: the step completed, and so did the run."""


@dataclass(frozen=True, slots=True)
class LastReport:
    """What the report leads to: the run and its step as they will be."""

    run: RunState
    ended: StepState

    @property
    def reply(self) -> Applied:
        """What the reporter is told."""
        return Applied()


def last_report(
    definition: Definition, run: RunState, step: StepState, event: Report
) -> LastReport | None:
    """Return what a report leads to; `run` and `step` are as the latest revision left them."""
    outcome = event.outcome
    if step.node not in definition.last or not isinstance(outcome, Succeeded):
        return None
    if not (goes_on(run) and is_held(step, event) and ends_run(definition, run)):
        return None
    output = output_of_run(definition, run, step, outcome.output)
    if output is None:
        return None
    ended_nodes = run.ended_nodes + 1
    ended = replace(
        moved(step, Move.COMPLETE),
        output=outcome.output,
        error=None,
        ended_rank=ended_nodes + run.inner_ended,
        compensable=False,
    )
    after = replace(
        run,
        status=RunStatus.COMPLETED,
        output=output,
        revision=run.revision + 1,
        generation=run.generation + 1,
        ended_nodes=ended_nodes,
        next_seq=run.next_seq + LINES,
    )
    return LastReport(after, ended)


def ends_run(definition: Definition, run: RunState) -> bool:
    """Tell whether the step is all that the run waits for, and nobody else waits for the run."""
    is_last = run.ended_nodes + 1 == len(definition.top.nodes)
    has_others = run.open_children > 0 or run.awaited_children > 0 or run.parent is not None
    leaves_more = run.exclusive_key is not None or run.has_mail or run.has_effects
    is_over = not definition.nodes_at_end(RunStatus.COMPLETED)
    return is_last and is_over and not (has_others or leaves_more)


def output_of_run(
    definition: Definition, run: RunState, step: StepState, output: bytes
) -> bytes | None:
    """Return a run's output; None where its last step's, or a template, is not as it should."""
    template = definition.top.result
    if run.input is None and any(read.root == INPUT for read in template.reads):
        return None
    try:
        check_payload(output, "output", len(output), MAX_OUTPUT_DEPTH)
        ended = {step.node: NodeValue(StepStatus.COMPLETED, output, None)}
        scope = Scope(run.input or b"", ended, run_facts(run, template.reads))
        return render(template, scope, omit_absent=True)
    except (InvalidArgument, ExpressionFailed):
        return None
