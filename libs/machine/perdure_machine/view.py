"""What a decision sees of a run: values, loaded under the run's lock, never changed in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from uuid import UUID

from perdure_machine.budgets import BudgetState, CostState, Spending
from perdure_machine.capacity import Reservation, Wish
from perdure_machine.erasure import Place as ErasurePlace
from perdure_machine.erasure import Portion
from perdure_machine.mailbox import Mailbox
from perdure_machine.places import At, Place
from perdure_machine.replacing import quickly_made
from perdure_machine.states import (
    AttemptOutcome,
    BlockEnd,
    ChildStatus,
    EffectStatus,
    ParentEnd,
    RunLimit,
    RunStatus,
    ScopeStatus,
    StepStatus,
    TimerKind,
)


@dataclass(frozen=True, slots=True)
class NodeError:
    """Why a node or a run failed: what expressions see as `error`.

    `category` is the error's class (retryable, rate_limited, authorisation, permanent, poison),
    `details` JSON or None, `node` the failed node's id, empty for the run itself. Texts are clean.
    """

    category: str
    code: str
    message: str
    details: bytes | None = None
    node: str = ""


@dataclass(frozen=True, slots=True)
class Parent:
    """The step of another run that a run was started by; `told`: it wants to know of the end."""

    run_id: UUID
    step: int
    told: bool


@quickly_made
@dataclass(frozen=True, slots=True)
class RunState:
    """A run's row. `input` is None where it was not loaded.

    `ended_nodes` counts the ended nodes of the top scope, `inner_ended` those of all others;
    `scope_generation` is the newest that a try of a whole sub-graph was given.

    `error` stands from the first failure that nothing caught, also while the run goes on. `depth`
    counts the runs above it. Of its children whose end is not known, `open_children` end with it,
    and its own end waits for `awaited_children`. A `pending` run has not begun, or waits to go on
    after a retry; `begun_ms` is when one that was put off began, in milliseconds since 1970, None
    for one that began when it was made.
    `pauses` counts its pauses and resumes: it is the generation of the cause `paused` (p5).
    `recounted` are the ended steps that a retry had decided again, so that they count twice in
    ranks. `ending` is the status that a run will have once what completed in it is compensated;
    next come steps whose rank is less than `undo_below`. `compensations` were begun so far, and
    `uncompensated` steps will not be.
    `has_mail`: signals were sent to it, or steps of it waited for some. `erased`: no payload of it
    is kept or written. `has_effects`: some were begun that do not ride on their step's lease.
    """

    run_id: UUID
    org: str
    workflow_id: int
    workflow: str
    workflow_version: int
    status: RunStatus
    revision: int
    generation: int
    priority: int
    next_step: int
    ended_nodes: int
    next_seq: int
    input: bytes | None
    output: bytes | None
    error: NodeError | None
    start_key: str | None
    tags: Mapping[str, str]
    traceparent: str | None
    inner_ended: int = 0
    scope_generation: int = 0
    parent: Parent | None = None
    depth: int = 0
    open_children: int = 0
    awaited_children: int = 0
    pending: bool = False
    begun_ms: int | None = None
    exclusive_key: str | None = None

    @property
    def ended_steps(self) -> int:
        """How many steps have ended in all scopes together."""
        return self.ended_nodes + self.inner_ended

    paused: bool = False
    pauses: int = 0
    dead_lettered: bool = False
    recounted: int = 0
    ending: RunStatus | None = None
    undo_below: int = 0
    compensations: int = 0
    uncompensated: int = 0
    has_mail: bool = False
    erased: bool = False
    has_effects: bool = False


@dataclass(frozen=True, slots=True)
class Parked:
    """Why a step is parked, the generation of that cause, and the state that it comes back to."""

    cause: str
    generation: int
    was: StepStatus


def has_begun_before(run: RunState) -> bool:
    """Tell whether a run that is pending waits to go on after a retry, not to begin."""
    return run.next_step > 1


AT_END = 0
"""Stands for the run where a step is named that another one compensates: no step has it."""


@quickly_made
@dataclass(frozen=True, slots=True)
class StepState:
    """A step's row. `input` and `output` are None where there is none or it was not loaded.

    `taken` are the nodes that its edges lead to, None for all; `ended_rank` counts the nodes that
    ended up to this one; `stopping`: it was running when its run stopped. `undecided`: a retry has
    its node decided again, and what stands here is of before. `compensable`: its compensation runs
    if the run ends so that it does; `compensates` is the step that this one compensates, `AT_END`
    for one that the definition has done when the run ends.

    `lease_left` is what was left of the lease at the load, in seconds: for answers only, no
    decision reads it, because a renewal changes it without the run's lock (R1).
    """

    step: int
    node: str
    kind: str
    status: StepStatus
    scope: str = ""
    generation: int = 0
    lane: str | None = None
    owner: str | None = None
    priority: int = 0
    fence: int = 0
    lease_id: UUID | None = None
    worker: str | None = None
    failures: int = 0
    losses: int = 0
    effect_prefix: str | None = None
    input: bytes | None = None
    output: bytes | None = None
    error: NodeError | None = None
    traceparent: str | None = None
    taken: tuple[str, ...] | None = None
    ended_rank: int | None = None
    stopping: bool = False
    undecided: bool = False
    compensable: bool = False
    compensates: int | None = None
    parked: Parked | None = None
    lease_left: float | None = None

    @property
    def at(self) -> At:
        """The node that the step activates, and the scope that it stands in."""
        return At(self.scope, self.generation, self.node)

    @property
    def place(self) -> Place:
        """The scope that the step stands in."""
        return Place(self.scope, self.generation)


@quickly_made
@dataclass(frozen=True, slots=True)
class ScopeState:
    """A scope's row: one item of a `for_each`, one pass of a `repeat`, the inside of a `group`.

    `owner` is the step that it belongs to, `index` its place among that one's scopes, from 0.
    `ended_nodes` counts its own. `error` stands from the first failure that nothing caught, also
    while others of its nodes go on. `item`, `carry` and `output` are JSON or None.
    """

    scope: str
    generation: int
    owner: int
    index: int
    status: ScopeStatus
    ended_nodes: int = 0
    item: bytes | None = None
    carry: bytes | None = None
    output: bytes | None = None
    error: NodeError | None = None

    @property
    def place(self) -> Place:
        """The scope's identity in its run."""
        return Place(self.scope, self.generation)


@dataclass(frozen=True, slots=True)
class BlockState:
    """The counters of a step that holds a sub-graph, so that no event has to count its scopes.

    `generation` is that of its scopes. `total` is how many there will be, None while nobody knows;
    `made` how many have a row, `begun`, `ended` and `failed` how many of them did. `limit` bounds
    how many run at once. `ending` stands once it stops before its time: how it will end when all in
    it has, with `error` where it fails.
    """

    step: int
    generation: int
    total: int | None
    limit: int = 1
    made: int = 0
    begun: int = 0
    ended: int = 0
    failed: int = 0
    ending: BlockEnd | None = None
    error: NodeError | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class AttemptState:
    """A finished acquisition of a step; `next_step` was chained to its report."""

    step: int
    fence: int
    lease_id: UUID
    outcome: AttemptOutcome
    next_step: int | None = None


@dataclass(frozen=True, slots=True)
class EffectCall:
    """What the ledger keeps of a call that was begun by itself, under a lease of its own.

    `token` names the latest call, or look-up; `digest` is of its request. The provider keeps the
    key for `keep` seconds, None: not said. `lookups` were begun since the latest call; `epoch` is
    the one that this was begun in. `result` is what it came to, JSON, None where that is not known;
    `note` what the other side said. `waiter` is the step that waits for what becomes of it.
    `lease_left` is what was left of the lease at the load, in seconds; it is never renewed.
    """

    token: UUID
    digest: bytes = b""
    keep: float | None = None
    can_look_up: bool = False
    lookups: int = 0
    epoch: int = 0
    result: bytes | None = None
    note: str = ""
    waiter: int | None = None
    lease_left: float | None = field(default=None, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class EffectState:
    """An effect's row; `fence` is the acquisition that began the latest call.

    `age` is how many seconds ago the first call was begun, by the database clock. `call` is None
    for one that rides on its step's lease, and where it was not loaded.
    """

    key: str
    step: int
    kind: str
    status: EffectStatus
    fence: int
    calls: int
    age: float = field(default=0.0, compare=False)
    call: EffectCall | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """Whether calls that no key protects may begin, seen from one run.

    `is_open`: the database is the one that the latest epoch was begun on. `goes_back`: the run was
    unfinished when epoch `number` was begun, so what it did since the restored moment is forgotten.
    """

    number: int
    is_open: bool
    goes_back: bool


@dataclass(frozen=True, slots=True)
class TimerState:
    """A timer's row; `remaining` seconds until it is due by the database clock, 0 or less: due.

    `now_ms` is what that clock said, in milliseconds since 1970.
    """

    timer_id: int
    kind: TimerKind
    step: int | None
    generation: int
    remaining: float
    details: bytes | None = None
    now_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ChildState:
    """A child's row, on the step that asked for it.

    `version` is the one asked for until the child has started, 0 for the latest; `run_id` is None
    until then.
    """

    step: int
    workflow: str
    version: int
    on_parent_end: ParentEnd
    status: ChildStatus
    run_id: UUID | None = None

    @property
    def open(self) -> bool:
        """Whether it may still run, as far as its parent knows."""
        return self.status in (ChildStatus.STARTING, ChildStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Some of the scopes of a step, in the order of their places: `count` of them from `start`.

    `path` is that of the step: its node, after the scope that this is in.
    """

    step: int
    path: str
    generation: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class KeyQueue:
    """Who has and wants an exclusive key, seen from one run, under the key's lock.

    `is_open`: the holder has not ended; `told`: it was told to make way. `first` is the first that
    waits before the run, `untold` those before it that were not told; `waits`: the run waits too.
    """

    holder: UUID | None = None
    is_open: bool = False
    told: bool = False
    first: UUID | None = None
    untold: tuple[UUID, ...] = ()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A run and what was loaded of it.

    `known_nodes` are the nodes whose step is in `steps` if there is one at all, as those of all
    `known_places` are; `unfinished` the steps to end of a closed run, None where they were not
    asked for. `open_inside` are, by how their scopes' paths begin, the unfinished steps of
    sub-graphs that stop; `rows` scopes with their outputs, where these were asked for. `children`
    are by step; `leaving` those of them that are to end with what has ended, None where they were
    not asked for; `passed` the limits that the run is past by the database clock, looked up for
    events about them only. `suppressed` tells of steps whether their subject is on a list that
    forbids them. `absent_scopes` were asked for, and there are none such.
    `erasing` tells of rows that an erasure comes to next. `reservations` are by
    step and lease id; `causes` are generations that nobody can change before the decision is
    written; `connections` what expressions gave, by step.
    `erasing` tells of rows that an erasure comes to next. `costs` are those of steps with one,
    `spending` what the run has spent, `budgets` what is left to it, None where not asked for.
    """

    run: RunState
    steps: Mapping[int, StepState] = field(default_factory=dict)
    known_nodes: frozenset[At] = frozenset()
    known_places: frozenset[Place] = frozenset()
    attempts: tuple[AttemptState, ...] = ()
    effects: Mapping[str, EffectState] = field(default_factory=dict)
    timers: Mapping[int, TimerState] = field(default_factory=dict)
    unfinished: tuple[int, ...] | None = None
    scopes: Mapping[Place, ScopeState] = field(default_factory=dict)
    blocks: Mapping[int, BlockState] = field(default_factory=dict)
    open_inside: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    children: Mapping[int, ChildState] = field(default_factory=dict)
    leaving: tuple[int, ...] | None = None
    rows: Mapping[RowsOf, tuple[ScopeState, ...]] = field(default_factory=dict)
    passed: frozenset[RunLimit] = frozenset()
    mail: Mailbox = field(default_factory=Mailbox)
    reopening: tuple[int, ...] | None = None
    queue: KeyQueue | None = None
    compensable: tuple[int, ...] | None = None
    suppressed: Mapping[int, bool] = field(default_factory=dict)
    absent_scopes: frozenset[Place] = frozenset()
    erasing: Mapping[ErasurePlace, Portion] = field(default_factory=dict)
    reservations: Mapping[tuple[int, UUID], Reservation] = field(default_factory=dict)
    causes: Mapping[str, int] = field(default_factory=dict)
    connections: Mapping[int, str] = field(default_factory=dict)
    costs: Mapping[int, CostState] = field(default_factory=dict)
    spending: Spending | None = None
    budgets: tuple[BudgetState, ...] | None = None
    known_effects: frozenset[str] | None = None  # keys looked up with their calls; None: all
    known_ledgers: frozenset[int] | None = None  # steps whose begun effects are known; None: all
    epoch: Epoch | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a decision lacks: load it under the same lock and decide again."""

    nodes: frozenset[At] = frozenset()  # their steps
    outputs: frozenset[At] = frozenset()  # the outputs of those of them that have one
    steps: frozenset[int] = frozenset()  # these steps, with inputs
    input: bool = False
    queue: bool = False
    scopes: frozenset[Place] = frozenset()  # these, and what they stand in up to the top
    blocks: frozenset[int] = frozenset()  # the counters of these steps
    open_inside: frozenset[str] = frozenset()  # unfinished steps whose scope's path begins so
    leaving: bool = False
    rows: frozenset[RowsOf] = frozenset()
    unfinished: frozenset[StepStatus] = frozenset()  # the next steps in one of these states
    unfinished_after: int = 0  # those of them with a greater number
    compensable: frozenset[int] = frozenset()  # the next to compensate whose rank is less
    reopening: frozenset[int] = frozenset()  # the next steps after it that a retry looks at
    signals: frozenset[str] = frozenset()  # all unconsumed ones of these names
    keys: frozenset[str] = frozenset()  # these correlation keys, to be claimed for the run
    top: bool = False  # all steps of the top scope
    costs: frozenset[int] = frozenset()  # what these steps cost, and what the run has spent
    budgets: bool = False  # those that hold for the run, locked
    erasing: frozenset[ErasurePlace] = frozenset()  # the next rows to erase after these places
    consents: frozenset[int] = frozenset()  # whether the subjects of these steps are suppressed
    secret: bool = False  # what tokens of callbacks are made with
    capacity: frozenset[Wish] = frozenset()  # places at connections
    causes: frozenset[str] = frozenset()  # the generations of these
    connections: frozenset[int] = frozenset()  # those of these steps
    effects: frozenset[str] = frozenset()  # these, by key, with their calls
    ledgers: frozenset[int] = frozenset()  # what these steps have begun, with their calls
    epoch: bool = False

    def joined(self, other: Wanted) -> Wanted:
        """Return what either lacks."""
        return Wanted(*(getattr(self, one.name) | getattr(other, one.name) for one in fields(self)))


class ViewTooNarrow(Exception):
    """The decision needs more of the run than was loaded; `wanted` says what."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(f"the view lacks {wanted}")
        self.wanted = wanted


def lacking_nodes(nodes: Iterable[At], outputs: Iterable[At]) -> ViewTooNarrow:
    """Say that the steps of `nodes` are needed, and the outputs of `outputs` among them."""
    return ViewTooNarrow(Wanted(nodes=frozenset(nodes), outputs=frozenset(outputs)))
