"""What a published definition means: frozen values that `decide` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from perdure_machine.expressions import Expression, Template

DEFAULT_LANE = "io"
DEFAULT_MAX_STEPS = 10_000
MAX_PRIORITY = 100


class EffectKind(StrEnum):
    """How an outside call may be repeated (design section 8)."""

    PROVIDER = "provider"
    """The provider honours the effect key: repeat under it."""
    RECONCILE = "reconcile"
    """Look the effect up before repeating it."""
    NONE = "none"
    """Nothing is known; when the outcome is unknown a person decides."""
    REPEATABLE = "repeatable"
    """The call changes nothing outside, as GET and HEAD: repeat at will."""


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
    """A named handler on a lane; without `input` the handler gets the run's input."""

    name: ClassVar[str] = "task"
    inline: ClassVar[bool] = False
    handler: str
    input: Template | None


@dataclass(frozen=True, slots=True)
class Http:
    """One outside call. `success` holds the accepted statuses, empty is any 2xx.

    `effect_keep` is how many seconds the provider remembers the effect key, None if unstated.
    """

    name: ClassVar[str] = "http"
    inline: ClassVar[bool] = False
    method: str
    url: Template
    headers: Mapping[str, Template]
    query: Mapping[str, Template]
    body: Template | None
    effect: EffectKind
    effect_keep: float | None
    success: frozenset[int]


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


Kind = Task | Http | Wait | Transform


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What a decision may read after one node has ended, or at the start of the run.

    `steps` are the nodes whose state is read, `outputs` those whose output or error is, `input`
    whether the run's input is.
    """

    steps: frozenset[str]
    outputs: frozenset[str]
    input: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex. `timeout` is of one try, in seconds; `result` replaces the node's output.

    Of `retry` the first rule that matches counts, and an error that none matches is not retried;
    empty where the document says nothing, and then the lane's rule counts.
    """

    id: str
    kind: Kind
    needs: tuple[str, ...]
    dependents: tuple[str, ...]
    when: Expression | None
    result: Template | None
    retry: tuple[RetryRule, ...]
    timeout: float | None
    lane: str
    priority: int
    prefetch: Prefetch


@dataclass(frozen=True, slots=True)
class Limits:
    """Most steps of a run, and its greatest age in seconds, None for none."""

    steps: int
    age: float | None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong, or doubtful, at one place of a definition; `hint` says what to write."""

    path: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Definition:
    """One version of a workflow, checked.

    `output` is None where the document has none; the run's output is then `leaf_output`, an object
    of the leaves' outputs by node id. Either is rendered with `omit_absent`. `roots` need nothing.
    """

    name: str
    nodes: Mapping[str, Node]
    input_schema: bytes | None
    output: Template | None
    limits: Limits
    roots: tuple[str, ...]
    leaf_output: Template
    start_prefetch: Prefetch
    warnings: tuple[Problem, ...] = field(default=())
