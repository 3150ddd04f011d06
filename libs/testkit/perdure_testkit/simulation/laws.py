"""What must hold after every batch, whatever went wrong before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.events import (
    BeginEffect,
    DecideEffect,
    Event,
    ExpireLease,
    FireTimer,
    Release,
    Report,
    RetryRun,
    SettleEffect,
)
from perdure_machine.memory import StartAnswer
from perdure_machine.memory.rows import GuardFailed
from perdure_machine.replies import Emission, Reply, Stale
from perdure_machine.states import ENDED, AttemptOutcome, RunStatus, StepStatus
from perdure_machine.view import AttemptState, EffectState, RunState, StepState
from perdure_runtime.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    NotFound,
    PerdureError,
)

from perdure_testkit.simulation.effect_laws import check_effects
from perdure_testkit.simulation.faults import CALM_AFTER
from perdure_testkit.simulation.moves import reachable
from perdure_testkit.simulation.scene import ORG, Scene, Violation, event_name, step_name

_BLUNDERS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_CAUSE = {
    AttemptOutcome.COMPLETED: Report,
    AttemptOutcome.FAILED: Report,
    AttemptOutcome.RELEASED: Release | BeginEffect,
    AttemptOutcome.LOST: ExpireLease,
    AttemptOutcome.TIMED_OUT: ExpireLease,
}
"""The event that an acquisition's holder, or the sweeper, must have sent for it to end so."""

_NOT_SWEPT = "running under a lease that ended long ago"
_SWEPT_WITHIN = 10.0
"""What R10 rightly tells of while every call of the sweeper may be lost, and the seconds within
which it sweeps once none is."""

_BY_TOKEN = (AttemptOutcome.RELEASED, AttemptOutcome.FAILED)
"""How an acquisition may also end by what its holder told of its call, under that one's token."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A run's rows at one moment."""

    run: RunState
    steps: dict[int, StepState]
    attempts: tuple[AttemptState, ...]
    effects: dict[str, EffectState]


class Laws:
    """Stands between the coordinators and the store, and looks at the rows after each batch."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._runs: dict[str, UUID] = {}
        self._retried: set[UUID] = set()

    def start(self, key: str, workflow: str, payload: bytes) -> StartAnswer:
        """Start a run. Raises `Violation`."""
        store = self.scene.store
        try:
            answer = store.start(ORG, workflow, payload, start_key=store.bug.start_key(key))
        except (*_BLUNDERS, PerdureError) as error:
            raise Violation(f"a start was answered by {error!r}") from error
        known = self._runs.setdefault(key, answer.run_id)
        if known != answer.run_id:
            raise Violation(f"p7: the start key {key} made a second run")
        self._check_exclusive()
        self._check_ways_forward()
        return answer

    def check_children(self) -> None:
        """See that no try of a node has two children. Raises `Violation`."""
        store = self.scene.store
        parents = [run.parent for run in map(store.run, store.all_runs()) if run.parent]
        for (run_id, number), children in Counter((p.run_id, p.step) for p in parents).items():
            step = next(step for step in store.steps(run_id) if step.step == number)
            if children > step.failures + 1:
                raise Violation(f"a try of {step_name(step)} has two children")
        self._check_ways_forward()

    def emit(self, emission: Emission) -> str:
        """Send what a run emits; return why it was refused, empty if not. Raises `Violation`."""
        try:
            self.scene.store.signal(ORG, emission.signal, emission.target)
        except (NotFound, FailedPrecondition) as refusal:
            return refusal.message
        except (*_BLUNDERS, PerdureError) as error:
            raise Violation(f"an emission was answered by {error!r}") from error
        self._check_ways_forward()
        return ""

    def submit(self, org: str, run_id: UUID, events: Sequence[Event]) -> list[Reply]:
        """Apply a batch of one run; what the store refuses as a whole goes one by one."""
        try:
            return self._submit(org, run_id, events)
        except GuardFailed as refusal:
            if len(events) == 1:
                raise Violation(f"{event_name(events[0])}: {refusal}") from refusal
            return [self.submit(org, run_id, [event])[0] for event in events]

    def _submit(self, org: str, run_id: UUID, events: Sequence[Event]) -> list[Reply]:
        before = self._rows(run_id)
        expired = self.scene.store.expired_leases()
        run_out = {(one.step, one.fence) for one in expired if one.run_id == run_id}
        names = ", ".join(event_name(event) for event in events)
        try:
            answers = self.scene.store.submit_all(org, run_id, events)
        except _BLUNDERS as error:
            raise Violation(f"{names} was answered by {error!r}") from error
        answers = [
            Stale() if _is_late(event, answer) else answer
            for event, answer in zip(events, answers, strict=True)
        ]
        replies = [answer for answer in answers if not isinstance(answer, PerdureError)]
        if len(replies) < len(answers):
            refused = next(answer for answer in answers if isinstance(answer, PerdureError))
            raise Violation(f"{names} was refused: {refused!r}")
        now = self._rows(run_id)
        self._check(before, now, events)
        check_losses(before, now, run_out)
        return replies

    def _rows(self, run_id: UUID) -> Rows:
        store = self.scene.store
        return Rows(
            store.run(run_id),
            {step.step: step for step in store.steps(run_id)},
            tuple(store.attempts(run_id)),
            {effect.key: effect for effect in store.effects(run_id)},
        )

    def _check(self, before: Rows, now: Rows, events: Sequence[Event]) -> None:
        retried = any(isinstance(event, RetryRun) for event in events)
        check_run(before, now, retried)
        if retried and now.run.status is RunStatus.RUNNING:
            self._retried.add(now.run.run_id)
        fired = any(isinstance(event, FireTimer) for event in events)
        again = now.run.run_id in self._retried and (retried or fired)
        for step in now.steps.values():
            check_step(before.steps.get(step.step), step, again)
        check_activations(now)
        check_attempts(before, now, events)
        check_effects(before.effects, now.effects, now.steps.values(), events)
        self._check_exclusive()
        self._check_ways_forward()

    def _check_exclusive(self) -> None:
        """See that of the runs with one exclusive key one goes on. Raises `Violation`."""
        store = self.scene.store
        open_ = [run for run in map(store.run, store.all_runs()) if run.exclusive_key is not None]
        going_on = Counter(run.exclusive_key for run in open_ if _goes_on(run))
        for key, runs in going_on.items():
            if runs > 1:
                raise Violation(f"{runs} runs go on with the exclusive key {key}")

    def _check_ways_forward(self) -> None:
        stuck = self.scene.store.no_way_forward()
        if self.scene.clock.now < CALM_AFTER + _SWEPT_WITHIN:
            stuck = [one for one in stuck if one.missing != _NOT_SWEPT]
        if stuck:
            one = stuck[0]
            raise Violation(f"R10: step {one.step} is {one.status}: {one.missing}")


def _is_late(event: Event, answer: Reply | PerdureError) -> bool:
    """Tell whether a decision was refused because another had come first."""
    refused = FailedPrecondition | AlreadyExists | Aborted
    return isinstance(event, DecideEffect | RetryRun) and isinstance(answer, refused)


def _goes_on(run: RunState) -> bool:
    return run.status is RunStatus.RUNNING and not run.pending


def check_run(before: Rows, now: Rows, retried: bool) -> None:
    """See that a final run stays as it is, and that every change raises the revision.

    Only a retry opens a run that failed.
    """
    old, new = before.run, now.run
    opened = retried and old.status is RunStatus.FAILED
    if old.status is not RunStatus.RUNNING and not opened:
        ended = (old.status, old.output, old.error)
        if (new.status, new.output, new.error) != ended:
            raise Violation(f"the run was {old.status} for good and is now {new.status}")
    changed = (before.steps, before.attempts, before.effects) != (
        now.steps,
        now.attempts,
        now.effects,
    )
    if changed and new.revision <= old.revision:
        raise Violation("R1: rows of the run changed and its revision did not")


def check_step(old: StepState | None, new: StepState, again: bool) -> None:
    """See that a step moves along the table of transitions and that an ended one stays.

    Only what a retry has decided again moves on; what completed well never does.
    """
    if old is None or old == new:
        return
    name = step_name(new)
    decided_again = (again or old.undecided) and old.status in ENDED - {StepStatus.COMPLETED}
    # One that completed after its run had failed is counted by the retry, and stays as it is.
    counted = again and _outcome(old) == _outcome(new)
    if old.status in ENDED and not decided_again and not counted:
        raise Violation(f"{name} was {old.status} for good and changed")
    if old.status not in ENDED and new.status not in reachable(old.status):
        raise Violation(f"{name} went from {old.status} to {new.status}")
    if new.fence < old.fence:
        raise Violation(f"R6: the fence of {name} fell from {old.fence} to {new.fence}")
    same_input = new.input == old.input or decided_again
    if new.node != old.node or not same_input:
        raise Violation(f"{name} changed what it is")


def _outcome(step: StepState) -> object:
    return step.status, step.output, step.error, step.taken


def check_activations(now: Rows) -> None:
    """See that no node was activated twice in one generation of its scope."""
    places = [(step.scope, step.generation, step.node) for step in now.steps.values()]
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise Violation(f"{twice} has two steps")


def check_attempts(before: Rows, now: Rows, events: Sequence[Event]) -> None:
    """See that each acquisition ends once, by an event of its own, and one result is applied."""
    ended = [(one.step, one.fence) for one in now.attempts]
    if len(set(ended)) < len(ended):
        raise Violation(f"R6: an acquisition ended twice: {ended}")
    well = [one.step for one in now.attempts if one.outcome is AttemptOutcome.COMPLETED]
    if len(set(well)) < len(well):
        raise Violation("R6: two results were applied to one step")
    known = set(ended)
    for step in now.steps.values():
        lacking = [f for f in range(1, step.fence) if (step.step, f) not in known]
        if lacking:
            name = step_name(step)
            raise Violation(f"R6: {name} was leased again while acquisition {lacking[0]} lived")
    for attempt in now.attempts[len(before.attempts) :]:
        _check_cause(attempt, events)


def check_losses(before: Rows, now: Rows, run_out: Set[tuple[int, int]]) -> None:
    """See that only leases that had run out were taken away."""
    for attempt in now.attempts[len(before.attempts) :]:
        taken = attempt.outcome in (AttemptOutcome.LOST, AttemptOutcome.TIMED_OUT)
        ended = now.steps[attempt.step].status in ENDED
        at_deadline = attempt.outcome is AttemptOutcome.TIMED_OUT and ended
        if taken and not at_deadline and (attempt.step, attempt.fence) not in run_out:
            raise Violation(f"R6: a live lease of step {attempt.step} was taken away")


def _may_be_at_deadline(attempt: AttemptState, events: Sequence[Event]) -> bool:
    timers = any(isinstance(event, FireTimer) for event in events)
    return attempt.outcome is AttemptOutcome.TIMED_OUT and timers


def _check_cause(attempt: AttemptState, events: Sequence[Event]) -> None:
    cause = _CAUSE.get(attempt.outcome)
    by_token = attempt.outcome in _BY_TOKEN and any(isinstance(e, SettleEffect) for e in events)
    if cause is None or by_token or _may_be_at_deadline(attempt, events):
        return
    acquisition = (attempt.step, attempt.fence, attempt.lease_id)
    sent = [
        (event.step, event.fence, event.lease_id)
        for event in events
        if isinstance(event, cause)
        and isinstance(event, Report | Release | ExpireLease | BeginEffect)
    ]
    if acquisition not in sent:
        raise Violation(
            f"R6: acquisition {attempt.fence} of step {attempt.step} ended {attempt.outcome}"
            " by an event of somebody else"
        )
