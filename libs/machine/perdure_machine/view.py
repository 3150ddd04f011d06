"""What a decision sees of a run: values, loaded under the run's lock, never changed in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from perdure_machine.states import (
    AttemptOutcome,
    EffectStatus,
    RunStatus,
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
class RunState:
    """A run's row. `input` is None where it was not loaded.

    `error` stands from the first failure that nothing caught, also while the run goes on.
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


@dataclass(frozen=True, slots=True)
class StepState:
    """A step's row. `input` and `output` are None where there is none or it was not loaded.

    `taken` are the nodes that its edges lead to, None for all; `ended_rank` counts the nodes that
    ended up to this one; `stopping`: it was running when its run stopped.

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
    lease_left: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptState:
    """A finished acquisition of a step; `next_step` was chained to its report."""

    step: int
    fence: int
    lease_id: UUID
    outcome: AttemptOutcome
    next_step: int | None = None


@dataclass(frozen=True, slots=True)
class EffectState:
    """An effect's row; `fence` is the acquisition that began the latest call.

    `age` is how many seconds ago the first call was begun, by the database clock.
    """

    key: str
    step: int
    kind: str
    status: EffectStatus
    fence: int
    calls: int
    age: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class TimerState:
    """A timer's row; `remaining` seconds until it is due by the database clock, 0 or less: due."""

    timer_id: int
    kind: TimerKind
    step: int | None
    generation: int
    remaining: float
    details: bytes | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A run and what was loaded of it.

    `known_nodes` are the nodes of the top scope whose step is in `steps` if there is one at all;
    `unfinished` the steps to end of a closed run, None where they were not asked for.
    """

    run: RunState
    steps: Mapping[int, StepState] = field(default_factory=dict)
    known_nodes: frozenset[str] = frozenset()
    attempts: tuple[AttemptState, ...] = ()
    effects: Mapping[str, EffectState] = field(default_factory=dict)
    timers: Mapping[int, TimerState] = field(default_factory=dict)
    unfinished: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a decision lacks: load it under the same lock and decide again."""

    nodes: frozenset[str] = frozenset()  # their steps
    outputs: frozenset[str] = frozenset()  # the outputs of those of them that have one
    steps: frozenset[int] = frozenset()  # these steps, with inputs
    input: bool = False
    unfinished: bool = False


class ViewTooNarrow(Exception):
    """The decision needs more of the run than was loaded; `wanted` says what."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(f"the view lacks {wanted}")
        self.wanted = wanted


def lacking_nodes(nodes: Iterable[str], outputs: Iterable[str]) -> ViewTooNarrow:
    """Say that the steps of `nodes` are needed, and the outputs of `outputs` among them."""
    return ViewTooNarrow(Wanted(nodes=frozenset(nodes), outputs=frozenset(outputs)))
