"""A run goes on in another version of its workflow, or stays and tells why (R11).

The event is decided on both versions: the old one says what the run's rows mean, the new one what
follows. Settled effects stand, because a step keeps the prefix of its effects' keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.actions import MoveRun, PutStep, RecordMigration, RenameStep
from perdure_machine.decide.advance import advance
from perdure_machine.decide.draft import Decision, Draft
from perdure_machine.decide.legality import (
    Versions,
    of_input,
    of_passed,
    of_run,
    of_steps,
    skippable,
    top_steps,
)
from perdure_machine.decide.scope import run_input
from perdure_machine.decide.stopping import drop_ways_forward, skip
from perdure_machine.definition.inputs import input_with_defaults
from perdure_machine.definition.model import Definition
from perdure_machine.events import FireTimer
from perdure_machine.lanes import Lane
from perdure_machine.migration import MigrationOutcome, OnPassed, Plan, Refusal, Told
from perdure_machine.places import TOP, At, at_top
from perdure_machine.replacing import replace
from perdure_machine.replies import Applied
from perdure_machine.states import ENDED, RunStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import RunState, StepState, View, ViewTooNarrow, Wanted

PASSED = "the run was past it when it was migrated"


def migrate(
    versions: Versions, lanes: Mapping[str, Lane], view: View, event: FireTimer
) -> Decision:
    """Move the run of `view`, or record why it stays. Raises `ViewTooNarrow`."""
    run, plan = view.run, versions.plan
    if run.workflow_id == plan.to_id:
        return _stay(versions.new, lanes, view, event, plan, Told(MigrationOutcome.MIGRATED))
    if run.status is not RunStatus.RUNNING:
        return _stay(versions.old, lanes, view, event, plan, Told(MigrationOutcome.ENDED))
    refusals = why_not(versions, lanes, view)
    if refusals:
        told = Told(MigrationOutcome.REFUSED, refusals)
        return _stay(versions.old, lanes, view, event, plan, told)
    return _move(versions, lanes, view, event)


def why_not(versions: Versions, lanes: Mapping[str, Lane], view: View) -> tuple[Refusal, ...]:
    """Return all reasons why a run cannot be moved, none where it can. Raises `ViewTooNarrow`."""
    run = view.run
    of_the_run = tuple(of_run(run, versions.plan))
    if of_the_run:
        return of_the_run
    if TOP not in view.known_places or run.input is None:
        raise ViewTooNarrow(Wanted(top=TOP not in view.known_places, input=run.input is None))
    refusals = (*of_input(versions.new, run.input), *of_steps(versions, view))
    if refusals:
        return refusals
    draft = Draft(versions.new, lanes, _in_new_version(versions, view))
    try:
        return tuple(of_passed(draft, versions))
    except ViewTooNarrow as narrow:
        raise _in_old_names(versions, view, narrow) from None


def _stay(
    definition: Definition,
    lanes: Mapping[str, Lane],
    view: View,
    event: FireTimer,
    plan: Plan,
    told: Told,
) -> Decision:
    draft = Draft(definition, lanes, view)
    draft.drop_timer(event.timer_id)
    if told.outcome is MigrationOutcome.REFUSED:
        why = "; ".join(_sentence(one) for one in told.refusals)
        draft.record("migration_refused", version=plan.to_version, why=why)
    draft.actions.append(RecordMigration(plan.migration_id, told))
    return draft.decision(Applied())


def _sentence(refusal: Refusal) -> str:
    return f"`{refusal.node}`: {refusal.message}" if refusal.node else refusal.message


def _move(versions: Versions, lanes: Mapping[str, Lane], view: View, event: FireTimer) -> Decision:
    draft = Draft(versions.new, lanes, _in_new_version(versions, view))
    draft.drop_timer(event.timer_id)
    payload = input_with_defaults(versions.new, run_input(draft))
    draft.run = replace(draft.run, input=payload)
    draft.actions += [*_renames(view, draft.view), MoveRun(payload)]
    _tell(draft, versions)
    draft.actions.append(
        RecordMigration(versions.plan.migration_id, Told(MigrationOutcome.MIGRATED))
    )
    try:
        _go_on(draft, versions)
    except ViewTooNarrow as narrow:
        raise _in_old_names(versions, view, narrow) from None
    return draft.decision(Applied())


def _go_on(draft: Draft, versions: Versions) -> None:
    """End what has gone, skip what comes too late, and decide on all that has not begun.

    A run that is yet to begin does so by the new version, when its time comes.
    """
    if draft.run.pending:
        return
    skipped = skippable(draft, versions) if versions.plan.on_passed is OnPassed.SKIP else []
    for step in top_steps(draft.view):
        if step.status not in ENDED and not versions.stays(step):
            _end_removed(draft, step, versions.plan)
    for node in skipped:
        skip(draft, draft.definition.nodes[node], TOP, PASSED)
    draft.candidates.extend(
        at for at in map(at_top, draft.definition.top.nodes) if draft.step_of(at) is None
    )
    draft.touched[TOP] = None
    advance(draft)


def _end_removed(draft: Draft, step: StepState, plan: Plan) -> None:
    drop_ways_forward(draft, step)
    ended = draft.end_stopped(PutStep(moved(step, Move.CANCEL), ended=True))
    draft.record("step_cancelled", ended, why=f"version {plan.to_version} lacks it")


def _in_new_version(versions: Versions, view: View) -> View:
    """Return the view as the new version's rows, before anything follows from it."""
    steps = {
        number: _renamed(versions, step) if step.place == TOP else step
        for number, step in view.steps.items()
    }
    return replace(
        view,
        run=_counted(view.run, versions, steps.values()),
        steps=steps,
        known_nodes=frozenset(at for at in view.known_nodes if at.place != TOP),
    )


def _renamed(versions: Versions, step: StepState) -> StepState:
    taken = step.taken
    if taken is not None:
        found = (versions.becomes(node) for node in taken)
        taken = tuple(node for node in found if node is not None)
    return replace(step, node=versions.node_of(step), taken=taken)


def _counted(run: RunState, versions: Versions, steps: Iterable[StepState]) -> RunState:
    """Return the run in the new version, whose nodes alone count for its end."""
    top = versions.new.top.nodes
    ended = sum(
        step.place == TOP and step.status in ENDED and not step.undecided and step.node in top
        for step in steps
    )
    return replace(
        run,
        workflow_id=versions.plan.to_id,
        workflow_version=versions.plan.to_version,
        ended_nodes=ended,
        inner_ended=run.ended_steps - ended,
    )


def _renames(old: View, new: View) -> Iterable[RenameStep]:
    for number, step in new.steps.items():
        before = old.steps[number]
        if (step.node, step.taken) != (before.node, before.taken):
            yield RenameStep(number, step.node, step.taken)


def _tell(draft: Draft, versions: Versions) -> None:
    plan = versions.plan
    nodes = (node for graph in versions.old.graphs.values() for node in graph.nodes)
    names = ((node, versions.becomes(node)) for node in nodes)
    told = [f"{old} -> {new or 'gone'}" for old, new in names if old != new]
    draft.record(
        "run_migrated",
        before=plan.from_version,
        version=plan.to_version,
        nodes=", ".join(told),
        reason=plan.reason,
        by=plan.asked_by,
    )


def _in_old_names(versions: Versions, view: View, narrow: ViewTooNarrow) -> ViewTooNarrow:
    """Return what is lacking as the rows still name it."""
    names = {versions.node_of(step): step.node for step in top_steps(view)}

    def old(at: At) -> At:
        return at._replace(node=names.get(at.node, at.node)) if at.place == TOP else at

    wanted = narrow.wanted
    return ViewTooNarrow(
        replace(
            wanted,
            nodes=frozenset(map(old, wanted.nodes)),
            outputs=frozenset(map(old, wanted.outputs)),
        )
    )
