"""What a published definition means: frozen values that `decide` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from perdure_machine.definition.outside import Grpc, Http
from perdure_machine.expressions import Expression, Template
from perdure_machine.places import holder_of
from perdure_machine.states import ParentEnd

DEFAULT_LANE = "io"
DEFAULT_MAX_STEPS = 10_000
MAX_PRIORITY = 100
CONNECTION_NAME = r"[a-z][a-z0-9_.-]{0,99}"
"""What the name of a connection looks like."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """When and how a failed step is tried again.

    `on` holds error codes and classes, empty is any retryable error. `max` counts the retries after
    the first try. The n-th retry waits up to `base * factor ** (n - 1)` seconds, at most `cap`.
    """

    on: frozenset[str]
    max: int
    base: float
    factor: float
    cap: float


IO_RETRY = RetryRule(on=frozenset(), max=5, base=1.0, factor=2.0, cap=300.0)
SLOW_RETRY = RetryRule(on=frozenset(), max=2, base=30.0, factor=2.0, cap=600.0)
LANE_RETRY: Mapping[str, RetryRule] = MappingProxyType({"io": IO_RETRY, "slow": SLOW_RETRY})
"""Where a rule of the definition takes what it leaves out; other lanes take `IO_RETRY`."""


@dataclass(frozen=True, slots=True)
class Task:
    """A named handler on a lane; without `input` the handler gets the run's input.

    With `choice` the handler is what that gives, one of `one_of`.
    """

    name: ClassVar[str] = "task"
    inline: ClassVar[bool] = False
    handler: str
    input: Template | None
    choice: Template | None = None
    one_of: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause of a duration's text or a number of seconds; it uses no lane."""

    name: ClassVar[str] = "wait"
    inline: ClassVar[bool] = False
    duration: Template


@dataclass(frozen=True, slots=True)
class Transform:
    """A value that `decide` computes itself; it uses no lane."""

    name: ClassVar[str] = "transform"
    inline: ClassVar[bool] = True
    value: Template


@dataclass(frozen=True, slots=True)
class Case:
    """A way out of a switch: taken when its condition is the first that is true."""

    when: Expression
    then: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """Takes the edges of its first true case, or those of `otherwise`; it has no output."""

    name: ClassVar[str] = "switch"
    inline: ClassVar[bool] = True
    cases: tuple[Case, ...]
    otherwise: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    """A failure of the author's own; `output` becomes the error's details."""

    name: ClassVar[str] = "fail"
    inline: ClassVar[bool] = True
    code: Template
    message: Template | None
    output: Template | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run's end from where it stands; without `output` the run has the one of its document."""

    name: ClassVar[str] = "finish"
    inline: ClassVar[bool] = True
    output: Template | None
    compensate: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How many items may fail: a number, or a percentage of all; and what more of them do."""

    max: int = 0
    max_percent: float | None = None
    stop: bool = True


@dataclass(frozen=True, slots=True)
class ForEach:
    """A sub-graph for each item of a list, `concurrency` of them at once, `batch` items to one.

    Without `items` they come from the graph of its source, page by page.
    `alias` names the item besides `item`. `stop_when` is asked after each item that ended well.
    """

    name: ClassVar[str] = "for_each"
    inline: ClassVar[bool] = False
    items: Template | None
    alias: str
    concurrency: Template | None
    batch: int
    failures: Tolerance
    stop_when: Expression | None


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a loop hands from pass to pass: at first `init`, after a pass `next`."""

    init: Template
    next: Template


@dataclass(frozen=True, slots=True)
class Repeat:
    """A sub-graph again and again: until a condition is true after a pass, or while one is before.

    Between passes lie `every` seconds, or those of `backoff`. After `max` passes it fails, or is
    done if `exhausted_is_done`. Of `keep` passes before the current one the rows are kept, None for
    all.
    """

    name: ClassVar[str] = "repeat"
    inline: ClassVar[bool] = False
    until: Expression | None
    while_: Expression | None
    max: int
    every: Template | None
    backoff: RetryRule | None
    exhausted_is_done: bool
    keep: int | None
    carry: Mapping[str, Carried]


@dataclass(frozen=True, slots=True)
class Group:
    """A sub-graph as one unit."""

    name: ClassVar[str] = "group"
    inline: ClassVar[bool] = False


Block = ForEach | Repeat | Group
"""The kinds that hold a sub-graph."""

BLOCKS = (ForEach, Repeat, Group)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run of another workflow; without `version` of its latest, without `input` of `{}`.

    With `wait` the node ends as the child does, else once it is started.
    """

    name: ClassVar[str] = "run"
    inline: ClassVar[bool] = False
    workflow: Template
    version: Template | None
    input: Template | None
    wait: bool
    on_parent_end: ParentEnd


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Has another run of the org cancelled; it does not wait for that."""

    name: ClassVar[str] = "cancel_run"
    inline: ClassVar[bool] = True
    run: Template
    reason: Template | None


@dataclass(frozen=True, slots=True)
class Signal:
    """A wait for a signal of the name `signal`; its data become the output.

    With `key` also signals count that are sent by it. `filter` reads the root `signal`. The wait
    ends in a failure when `deadline` has passed, a duration, None for never.
    """

    name: ClassVar[str] = "signal"
    inline: ClassVar[bool] = False
    signal: str
    key: Template | None
    filter: Expression | None
    deadline: Template | None


@dataclass(frozen=True, slots=True)
class Emit:
    """A signal to others: by `key`, or to the run of the id `run`; without `data` it is null."""

    name: ClassVar[str] = "emit"
    inline: ClassVar[bool] = True
    signal: str
    key: Template | None
    run: Template | None
    data: Template | None


Kind = (
    Task
    | Http
    | Grpc
    | Wait
    | Transform
    | Switch
    | Fail
    | Finish
    | Signal
    | Emit
    | Block
    | ChildRun
    | CancelRun
)


class JoinKind(StrEnum):
    """What a node asks of the nodes that it needs."""

    ALL = "all"
    STRICT = "strict"
    ANY = "any"
    QUORUM = "quorum"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Join:
    """A node's join; `quorum` gives the number of needs that must end well, for QUORUM only.

    `cancels_rest`: once it is decided, what only its open branches are for is cancelled.
    """

    kind: JoinKind = JoinKind.ALL
    quorum: Template | None = None
    cancels_rest: bool = False


@dataclass(frozen=True, slots=True)
class Handler:
    """What is done about a failure that `when` is true for: one of the three is not None."""

    when: Expression | None
    then: tuple[str, ...] | None = None
    output: Template | None = None
    fail: Fail | None = None


class ExclusivePolicy(StrEnum):
    """What a run does that finds its exclusive key held."""

    QUEUE = "queue"
    REFUSE = "refuse"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Of the runs of an org with one `key` one goes on at a time."""

    key: Template
    policy: ExclusivePolicy


class OnError(StrEnum):
    """What an uncaught failure does to the nodes that do not descend from the failed one."""

    STOP = "stop"
    FINISH_OTHERS = "finish_others"


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What a decision may read after one node has ended well, or at the start of the run.

    A run without a failure is meant; one that fails reads on where it goes on.

    `steps` are the nodes whose state is read, `outputs` those whose output or error is, `input`
    whether the run's input is.
    """

    steps: frozenset[str]
    outputs: frozenset[str]
    input: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex. `timeout` is of one try, in seconds; `result` replaces the node's output.

    `deadline` gives how long the node may take with all its tries and waits, None for no end;
    `publish` is the name under which its output is given away while the run goes on. `connection`
    is the one that it uses, or what gives its name.

    Of `retry` the first rule that matches counts, and an error that none matches is not retried;
    empty where the document says nothing, and then the lane's rule counts. `needs` are all edges to
    the node, those that a `then` draws among them; of `dependents`, `rescuers` are those that only
    `on_failure` leads to. `container` is the node whose sub-graph it stands in, empty for none.
    `survivors`: some node that descends from it may run after it failed. `undo` is the node of its
    compensation, which is in no graph; it runs for a completed step, or where `undo_attempted` for
    any that was begun. `subject` gives whom the node's work is about, `purpose` what it is for,
    `cost` what a try of it is estimated to cost, `spent` what one that ended well came to by its
    answer, `effect_key` the name of its effect in its key.
    """

    id: str
    container: str
    kind: Kind
    needs: tuple[str, ...]
    dependents: tuple[str, ...]
    rescuers: frozenset[str]
    survivors: bool
    join: Join
    when: Expression | None
    result: Template | None
    retry: tuple[RetryRule, ...]
    timeout: float | None
    deadline: Template | None
    publish: str | None
    lane: str
    priority: int
    on_failure: tuple[Handler, ...]
    prefetch: Prefetch
    connection: str | Template | None = None
    undo: str | None = None
    undo_attempted: bool = False
    subject: Template | None = None
    purpose: str = ""
    cost: Template | None = None
    effect_key: Template | None = None
    spent: Template | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes at the top of a definition, or those of one of its nodes; `roots` need nothing.

    `output` is None where the document has none; the output of a scope is then `leaf_output`, an
    object of the leaves' outputs by node id. Either is rendered with `omit_absent`.
    """

    nodes: tuple[str, ...]
    roots: tuple[str, ...]
    output: Template | None
    leaf_output: Template
    start_prefetch: Prefetch

    @property
    def result(self) -> Template:
        """What the output of a scope is rendered from."""
        return self.output or self.leaf_output


@dataclass(frozen=True, slots=True)
class Limits:
    """Most steps of a run, its greatest age in seconds, and most that it may cost in millionths.

    None for no limit.
    """

    steps: int
    age: float | None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong, or doubtful, at one place of a definition; `hint` says what to write."""

    path: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Nodes, in no graph, that run once when a run ends as `on` says: a status, or `any`."""

    on: str
    then: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """One version of a workflow, checked.

    `nodes` are those of all its graphs, because an id stands once in a document; `graphs` are by
    the id of the node that holds each, empty for the one at the top. `deadline` gives how long the
    run may take from its beginning, None for no end; `subject` whom all of the run is about.
    `heirs` are, by node, those that its success hands the run over to; `first` is the one that the
    run plainly begins with, `last` are those that may plainly end it (`definition.heirs`).
    """

    name: str
    nodes: Mapping[str, Node]
    graphs: Mapping[str, Graph]
    heirs: Mapping[str, str]
    first: str | None
    last: frozenset[str]
    input_schema: bytes | None
    limits: Limits
    deadline: Template | None
    exclusive: Exclusive | None
    on_error: OnError
    compensate_on_cancel: bool = False
    at_end: tuple[AtEnd, ...] = ()
    subject: Template | None = None
    warnings: tuple[Problem, ...] = field(default=())

    @property
    def is_about_subjects(self) -> bool:
        """Whether it says anywhere whom its work is about."""
        nodes = self.nodes.values()
        return self.subject is not None or any(node.subject is not None for node in nodes)

    @property
    def compensates(self) -> bool:
        """Whether any node of it has a compensation."""
        return any(node.undo is not None for node in self.nodes.values())

    def nodes_at_end(self, status: str) -> tuple[str, ...]:
        """Return the nodes that run when a run ends with this status, each once."""
        entries = (one for one in self.at_end if one.on in (status, "any"))
        return tuple(dict.fromkeys(id_ for one in entries for id_ in one.then))

    @property
    def top(self) -> Graph:
        """The graph of the nodes that stand in no other."""
        return self.graphs[""]

    def lifted(self, node: str, container: str) -> str:
        """Return the node of the graph that `container` holds in which `node` stands, or itself."""
        while self.nodes[node].container != container:
            node = holder_of(self.nodes[node].container)
        return node
