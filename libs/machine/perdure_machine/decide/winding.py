"""Stops what is inside of a step that holds a sub-graph, before the step itself ends.

What runs is told to end and waited for; the rest is ended here, some steps at a time. The step
ends when nothing inside is left, so a scope never outlives the step that it belongs to.
"""

from __future__ import annotations

from perdure_machine.actions import PutStep, SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.decide.rows import reference
from perdure_machine.decide.stopping import drop_ways_forward, end_cancelled, end_stopped
from perdure_machine.decide.wholes import complete_whole, fail_whole
from perdure_machine.places import inner_scopes, source_of
from perdure_machine.replacing import replace
from perdure_machine.states import ENDED, BlockEnd, StepStatus, TimerKind
from perdure_machine.view import NodeError, StepState, ViewTooNarrow, Wanted

MAX_STOPPED_AT_ONCE = 500
"""Steps inside that one event ends, as of a run that closes (design section 12)."""


def stop_inside(
    draft: Draft, step: StepState, ending: BlockEnd, error: NodeError | None = None
) -> None:
    """Stop all that is inside of a step, which then ends as `ending` says, with `error` if so."""
    block = draft.block(step)
    if block.ending is BlockEnd.CANCEL:
        return
    draft.put_block(replace(block, ending=ending, error=error))
    wind_down(draft, step)


def wind_down(draft: Draft, step: StepState) -> None:
    """End the next unfinished steps inside of a step that stops, and itself if there is none."""
    open_ = _open_inside(draft, step)
    for number in open_[:MAX_STOPPED_AT_ONCE]:
        _stop(draft, draft.steps[number])
    if len(open_) > MAX_STOPPED_AT_ONCE:
        draft.actions.append(SetTimer(TimerKind.STOP_INSIDE, step.step, 0.0))
    elif all(draft.steps[number].status in ENDED for number in open_):
        _end(draft, step)


def _open_inside(draft: Draft, step: StepState) -> list[int]:
    """Return the unfinished steps inside, at most one more than are ended at once."""
    prefixes = scopes_inside(step)
    loaded: set[int] = set()
    if step.step < draft.view.run.next_step:
        if any(prefix not in draft.view.open_inside for prefix in prefixes):
            raise ViewTooNarrow(Wanted(open_inside=frozenset(prefixes)))
        loaded.update(*(draft.view.open_inside[prefix] for prefix in prefixes))
    made = (number for number, one in draft.steps.items() if one.scope.startswith(prefixes))
    found = sorted({*loaded, *made})
    return [number for number in found if draft.steps[number].status not in ENDED]


def scopes_inside(step: StepState) -> tuple[str, str]:
    """Return how the paths of a step's scopes begin: its own, and those of its source."""
    return inner_scopes(step.scope, step.node), inner_scopes(step.scope, source_of(step.node))


def _stop(draft: Draft, step: StepState) -> None:
    if step.status is not StepStatus.RUNNING:
        drop_ways_forward(draft, step)
        end_stopped(draft, step)
    elif not step.stopping:
        draft.put_step(PutStep(replace(step, stopping=True)))


def _end(draft: Draft, step: StepState) -> None:
    block = draft.block(step)
    match block.ending:
        case BlockEnd.FAIL:
            assert block.error is not None
            fail_whole(draft, step, block.error)
        case BlockEnd.COMPLETE:
            complete_whole(draft, step, reference(draft, block))
        case _:
            drop_ways_forward(draft, step)
            end_cancelled(draft, draft.steps[step.step])
