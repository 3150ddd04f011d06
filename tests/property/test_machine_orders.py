"""Random small workflows under random orders, repeats and delays of events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from perdure_machine.actions import Action, PutRun, PutStep
from perdure_machine.decide import Decision, decide
from perdure_machine.definition.model import Definition
from perdure_machine.events import (
    Acquire,
    CancelRun,
    Event,
    ExpireLease,
    ExpireRun,
    Failed,
    FireTimer,
    Offer,
    Queue,
    Release,
    Report,
    Succeeded,
)
from perdure_machine.lanes import Lane
from perdure_machine.memory import MemoryEngine
from perdure_machine.node_error import ErrorClass
from perdure_machine.places import TOP, At, Place
from perdure_machine.replies import Applied, Gone, Granted, Reply
from perdure_machine.states import (
    ENDED,
    AttemptOutcome,
    EffectOutcome,
    EffectStatus,
    RunStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.transitions import TABLE
from perdure_machine.view import (
    NodeError,
    RunState,
    ScopeState,
    StepState,
    View,
    ViewTooNarrow,
    Wanted,
)
from perdure_runtime.errors import PerdureError
from perdure_testkit.engines.workflows import INPUTS, PAYLOADS, documents

ORG = "acme"
QUEUES = frozenset({Queue("io", ORG), Queue("io", "shared")})
MAX_ROUNDS = 100
REPORTED = [
    None,
    EffectOutcome.PERFORMED,
    EffectOutcome.NOT_PERFORMED,
    EffectOutcome.UNKNOWN,
]
"""What a report can say of its call; only what settles a look-up can say more."""
CREATED = frozenset({StepStatus.QUEUED, StepStatus.WAITING, StepStatus.RUNNING}) | ENDED


class CheckingEngine(MemoryEngine):
    """Decides everything twice, and once more on a view that is widened only as asked for."""

    def _decide(self, definition: Definition, view: View, event: Event) -> Decision:
        decision = decide(definition, self.lanes, view, event)
        assert decide(definition, self.lanes, view, event) == decision
        narrow = decide_narrowly(definition, self.lanes, view, event)
        assert comparable(narrow.actions) == comparable(decision.actions)
        assert told(narrow.reply) == told(decision.reply)
        return decision


def decide_narrowly(
    definition: Definition, lanes: Mapping[str, Lane], view: View, event: Event
) -> Decision:
    """Decide on what the event names alone, as the database loads it, and on what is asked for."""
    narrow = narrowest(definition, view, event)
    for _ in range(50):
        try:
            return decide(definition, lanes, narrow, event)
        except ViewTooNarrow as lacking:
            narrow = widened(narrow, view, lacking.wanted)
    raise AssertionError("the decision asks on and on")


def narrowest(definition: Definition, view: View, event: Event) -> View:
    """Return what the database loads for the event: its step, and what its end may lead to."""
    number: int | None = getattr(event, "step", None)
    near = isinstance(event, Report) and isinstance(event.outcome, Succeeded)
    if isinstance(event, FireTimer) and event.timer_id in view.timers:
        number = view.timers[event.timer_id].step
        near = view.timers[event.timer_id].kind is TimerKind.WAIT
    named = view.steps.get(number) if number is not None else None
    states, outputs = set[At](), set[At]()
    if named is not None and near:
        prefetch = definition.nodes[named.node].prefetch
        container = definition.nodes[named.node].container
        here = {id_ for id_, node in definition.nodes.items() if node.container == container}
        outputs = {At(*named.place, id_) for id_ in prefetch.outputs & here}
        states = outputs | {At(*named.place, id_) for id_ in prefetch.steps & here}
    chosen = {n for n, step in view.steps.items() if n == number or step.at in states}
    scopes = around(view, {view.steps[n].place for n in chosen})
    owners = {scope.owner for scope in scopes.values()}
    return replace(
        view,
        run=replace(view.run, input=None),
        steps={
            n: replace(
                step,
                output=step.output if step.at in outputs else None,
                input=step.input if n == number and isinstance(event, Acquire) else None,
            )
            for n, step in view.steps.items()
            if n in chosen or n in owners
        },
        known_nodes=frozenset(states),
        known_places=frozenset(),
        scopes=scopes,
        blocks={n: view.blocks[n] for n in owners},
        open_inside={},
        effects={key: one for key, one in view.effects.items() if one.step == number},
        unfinished=None,
    )


def widened(narrow: View, full: View, wanted: Wanted) -> View:
    assert wanted != Wanted()
    scopes = around(full, wanted.scopes)
    owners = {scope.owner for scope in scopes.values()}
    inside = {n for prefix in wanted.open_inside for n in full.open_inside[prefix]}
    named = {n for n, step in full.steps.items() if step.at in wanted.nodes} | owners | inside
    steps = {**narrow.steps, **{n: replace(full.steps[n], input=None) for n in named}}
    steps |= {n: full.steps[n] for n in wanted.steps}
    if wanted.unfinished:
        steps |= {n: full.steps[n] for n in full.unfinished or ()}
    effects = {key: one for key, one in full.effects.items() if one.step in wanted.steps}
    return replace(
        narrow,
        run=full.run if wanted.input else narrow.run,
        steps=steps,
        known_nodes=narrow.known_nodes | wanted.nodes,
        effects={**narrow.effects, **effects},
        unfinished=full.unfinished if wanted.unfinished else narrow.unfinished,
        scopes={**narrow.scopes, **scopes},
        blocks={**narrow.blocks, **{n: full.blocks[n] for n in owners | wanted.blocks}},
        open_inside={
            **narrow.open_inside,
            **{prefix: full.open_inside[prefix] for prefix in wanted.open_inside},
        },
    )


def around(view: View, places: Iterable[Place]) -> dict[Place, ScopeState]:
    """Return the scopes of `places` and all those around them."""
    found: dict[Place, ScopeState] = {}
    open_ = [place for place in places if place != TOP]
    while open_:
        place = open_.pop()
        found[place] = view.scopes[place]
        outer = view.steps[found[place].owner].place
        if outer != TOP and outer not in found:
            open_.append(outer)
    return found


def comparable(actions: tuple[Action, ...]) -> list[Action]:
    """Leave out what is not written: the inputs of rows that exist."""
    return [without_input(action) for action in actions]


def without_input(action: Action) -> Action:
    match action:
        case PutRun():
            return replace(action, run=replace(action.run, input=None))
        case PutStep():
            return replace(action, step=replace(action.step, input=None))
        case _:
            return action


def told(reply: Reply) -> Reply:
    """Leave out the run's row, of which a grant tells only what never changes."""
    match reply:
        case Granted():
            return replace(reply, run=replace(reply.run, input=None))
        case Applied(next=Granted() as chained):
            return Applied(replace(chained, run=replace(chained.run, input=None)))
        case _:
            return reply


@dataclass(frozen=True)
class Seen:
    """A run as it was after the event before."""

    run: RunState
    steps: dict[int, StepState] = field(default_factory=dict)


def reachable(source: StepStatus) -> set[StepStatus]:
    """Return where moves lead from a state, in any number."""
    found, open_ = {source}, [source]
    while open_:
        here = open_.pop()
        for transition in TABLE.values():
            if here in transition.sources and transition.target not in found:
                found.add(transition.target)
                open_.append(transition.target)
    return found


class Orders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = CheckingEngine()
        self.runs: list[UUID] = []
        self.grants: list[Granted] = []
        self.sent: list[tuple[UUID, Event]] = []
        self.seen: dict[UUID, Seen] = {}
        self.lease_numbers = count(1)

    @initialize(document=documents(), payload=st.sampled_from(INPUTS))
    def begin(self, document: bytes, payload: bytes) -> None:
        self.engine.publish(ORG, document)
        for key in ("k1", "k2", "k1"):
            answer = self.engine.start(ORG, "flow", payload, start_key=key)
            if answer.created:
                self.runs.append(answer.run_id)
        assert len(self.runs) == 2

    def send(self, run: UUID, *events: Event) -> list[Reply | PerdureError]:
        """Send a batch, and check what must hold whatever it was."""
        revision = self.engine.run(run).revision
        answers = self.engine.submit_all(ORG, run, events)
        self.sent += [(run, event) for event in events]
        for answer in answers:
            assert not isinstance(answer, PerdureError), answer
            self.keep(answer)
        self.check(run, revision)
        if all(isinstance(answer, Gone) for answer in answers):
            assert self.engine.run(run).revision == revision or self.is_over(run, events)
        return answers

    def is_over(self, run: UUID, events: Iterable[Event]) -> bool:
        """Tell whether a step was ended instead of handed out, as one whose call is on record."""
        steps = {step.step: step for step in self.engine.steps(run)}
        asked = [event for event in events if isinstance(event, Acquire)]
        return any(steps[one.step].status in ENDED | {StepStatus.PARKED} for one in asked)

    def keep(self, answer: Reply) -> None:
        match answer:
            case Granted():
                self.grants.append(answer)
            case Applied(next=Granted() as chained):
                self.grants.append(chained)

    def check(self, run: UUID, revision: int) -> None:
        now = Seen(self.engine.run(run), {s.step: s for s in self.engine.steps(run)})
        before = self.seen.get(run)
        self.seen[run] = now
        if before is not None:
            changed = (now.run, now.steps) != (before.run, before.steps)
            assert now.run.revision > revision or not changed
            check_run(before.run, now.run)
            check_steps(before.steps, now.steps)

    def new_lease(self) -> UUID:
        return UUID(int=next(self.lease_numbers))

    def report(
        self, grant: Granted, outcome: Succeeded | Failed, effect: EffectOutcome | None, chain: bool
    ) -> Report:
        step = grant.step
        assert step.lease_id is not None
        offer = Offer(self.new_lease(), "w", QUEUES) if chain else None
        return Report(step.step, step.fence, step.lease_id, outcome, effect, offer, jitter=0.5)

    @precondition(lambda self: self.engine.queued_steps())
    @rule(data=st.data())
    def acquire(self, data: st.DataObject) -> None:
        queued = data.draw(st.sampled_from(self.engine.queued_steps()))
        self.send(queued.run_id, Acquire(queued.step, self.new_lease(), "w"))

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), payload=st.sampled_from(PAYLOADS), chain=st.booleans())
    def succeed(self, data: st.DataObject, payload: bytes, chain: bool) -> None:
        """Also long after the lease was lost: the call was made all the same (p4)."""
        grant = data.draw(st.sampled_from(self.grants))
        self.send(grant.run.run_id, self.report(grant, Succeeded(payload), None, chain))
        effects = {effect.key: effect for effect in self.engine.effects(grant.run.run_id)}
        if grant.effect is not None:
            assert effects[grant.effect.key].status is EffectStatus.SETTLED

    @precondition(lambda self: self.grants)
    @rule(
        data=st.data(),
        category=st.sampled_from(
            [ErrorClass.RETRYABLE, ErrorClass.RETRYABLE, ErrorClass.PERMANENT]
        ),
        effect=st.sampled_from(REPORTED),
        after=st.sampled_from([None, 0.0, 25.0]),
    )
    def fail(
        self,
        data: st.DataObject,
        category: ErrorClass,
        effect: EffectOutcome | None,
        after: float | None,
    ) -> None:
        grant = data.draw(st.sampled_from(self.grants))
        failed = Failed(NodeError(category, "BROKEN", "it broke"), after)
        self.send(grant.run.run_id, self.report(grant, failed, effect, False))

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        grant = data.draw(st.sampled_from(self.grants))
        assert grant.step.lease_id is not None
        event = Release(grant.step.step, grant.step.fence, grant.step.lease_id)
        self.send(grant.run.run_id, event)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        grant = data.draw(st.sampled_from(self.grants))
        assert grant.step.lease_id is not None
        run = grant.run.run_id
        revision = self.engine.run(run).revision
        self.engine.renew(ORG, run, grant.step.step, grant.step.fence, grant.step.lease_id)
        assert self.engine.run(run).revision == revision

    @rule(seconds=st.sampled_from([0.5, 11.0, 31.0]))
    def let_time_pass(self, seconds: float) -> None:
        """The sweep keeps up, so that no lease is over for long."""
        self.sweep()
        self.engine.advance(seconds)

    @rule()
    def sweep(self) -> None:
        for lease in self.engine.expired_leases():
            event = ExpireLease(lease.step, lease.fence, lease.lease_id, lease.timed_out, 0.5)
            self.send(lease.run_id, event)

    @precondition(lambda self: self.engine.timers())
    @rule(data=st.data())
    def fire_any_timer(self, data: st.DataObject) -> None:
        """Also one that is early."""
        timer = data.draw(st.sampled_from(self.engine.timers()))
        self.send(timer.run_id, FireTimer(timer.timer_id))

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), times=st.integers(1, 3))
    def r5_repeat(self, data: st.DataObject, times: int) -> None:
        """Something sent before arrives again; once it has, its repeats change nothing (R5)."""
        run, event = data.draw(st.sampled_from(self.sent))
        if not isinstance(event, ExpireLease):
            self.send(run, event)
            revision = self.engine.run(run).revision
            self.send(run, *[event] * times)
            assert self.engine.run(run).revision == revision

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), number=st.integers(2, 4))
    def fold(self, data: st.DataObject, number: int) -> None:
        """Old events of one run meet a new acquisition and its report in one batch."""
        run = data.draw(st.sampled_from(self.runs))
        old = [event for other, event in self.sent if other == run]
        old = [event for event in old if not isinstance(event, ExpireLease)]
        events = [data.draw(st.sampled_from(old)) for _ in range(number)] if old else []
        for queued in self.engine.queued_steps():
            if queued.run_id == run:
                lease = self.new_lease()
                fence = self.seen[run].steps[queued.step].fence + 1 if run in self.seen else 1
                events.append(Acquire(queued.step, lease, "w"))
                events.append(Report(queued.step, fence, lease, Succeeded(b"1")))
        if events:
            self.send(run, *data.draw(st.permutations(events)))

    @rule(data=st.data(), age=st.booleans(), chance=st.integers(0, 9))
    def close(self, data: st.DataObject, age: bool, chance: int) -> None:
        if chance == 0:
            run = data.draw(st.sampled_from(self.runs))
            self.send(run, ExpireRun() if age else CancelRun())

    @invariant()
    def r10_everything_has_a_way_forward(self) -> None:
        assert self.engine.no_way_forward() == []

    @invariant()
    def r6_one_result_is_applied_per_acquisition_and_step(self) -> None:
        for run in self.runs:
            attempts = self.engine.attempts(run)
            acquisitions = [(one.step, one.fence) for one in attempts]
            assert len(set(acquisitions)) == len(acquisitions)
            good = [one.step for one in attempts if one.outcome is AttemptOutcome.COMPLETED]
            assert len(set(good)) == len(good)
            statuses = {step.step: step.status for step in self.engine.steps(run)}
            assert all(statuses[step] is StepStatus.COMPLETED for step in good)

    def teardown(self) -> None:
        """Whatever happened, doing all work well ends every run and leaves nothing behind."""
        for _ in range(MAX_ROUNDS):
            if not self.unfinished():
                break
            self.work_once()
        for run in self.runs:
            assert self.engine.run(run).status is not RunStatus.RUNNING
            assert {step.status for step in self.engine.steps(run)} <= ENDED
        assert self.engine.timers() == []
        assert self.engine.queued_steps() == []

    def unfinished(self) -> bool:
        steps = [step for run in self.runs for step in self.engine.steps(run)]
        return bool(self.engine.timers()) or any(step.status not in ENDED for step in steps)

    def work_once(self) -> None:
        """Do all that waits, then let time pass."""
        for timer in self.engine.due_timers():
            self.send(timer.run_id, FireTimer(timer.timer_id))
        self.sweep()
        for queued in self.engine.queued_steps():
            (reply,) = self.send(queued.run_id, Acquire(queued.step, self.new_lease(), "w"))
            if isinstance(reply, Granted):
                self.send(queued.run_id, self.report(reply, Succeeded(b"1"), None, False))
        self.engine.advance(11.0)


def check_run(before: RunState, now: RunState) -> None:
    assert now.revision >= before.revision
    if before.status is not RunStatus.RUNNING:
        ended = (before.status, before.output, before.error)
        assert (now.status, now.output, now.error) == ended


def check_steps(before: dict[int, StepState], now: dict[int, StepState]) -> None:
    assert before.keys() <= now.keys()
    for number, step in now.items():
        old = before.get(number)
        if old is None:
            assert step.status in CREATED | {StepStatus.BACKING_OFF}
        elif old.status in ENDED:
            assert step == old
        else:
            assert step.status in reachable(old.status)
            assert step.fence >= old.fence
            assert (step.node, step.input) == (old.node, old.input)
    nodes = [step.node for step in now.values()]
    assert len(set(nodes)) == len(nodes)


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
