"""The kinds of nodes that hold a sub-graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from perdure.workflow.expressions import Expr, Value
from perdure.workflow.options import Kind, Retry
from perdure.workflow.parts import UNSET, Duration, Node, Part, Unset


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Failures(Part):
    """How many items may fail, and what one more of them does."""

    max: int | Unset = UNSET
    max_percent: float | Unset = UNSET
    then: Literal["stop", "finish"] | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Source(Part):
    """A task that is asked for items page by page; its input reads `CURSOR`."""

    handler: str
    input: Value | Unset = UNSET
    lane: str | Unset = UNSET
    retry: Retry | Sequence[Retry] | Unset = UNSET
    timeout: Duration | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class ForEach(Kind):
    """Runs `nodes` once for each item; they read it as `ITEM`, or by the name `as_`.

    The items are those of a list, `in_`, or come from a `source`; the other is `UNSET`.
    """

    NAME: ClassVar[str] = "for_each"
    in_: Value | Unset
    nodes: Mapping[Node, Kind]
    source: Source | Unset = field(default=UNSET, kw_only=True)
    as_: str | Unset = field(default=UNSET, kw_only=True)
    concurrency: int | Expr | Unset = field(default=UNSET, kw_only=True)
    batch: int | Unset = field(default=UNSET, kw_only=True)
    failures: Failures | Unset = field(default=UNSET, kw_only=True)
    stop_when: Expr | Unset = field(default=UNSET, kw_only=True)
    output: Value | Unset = field(default=UNSET, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Backoff(Part):
    """Waits that grow from pass to pass."""

    base: Duration | Unset = UNSET
    factor: float | Unset = UNSET
    cap: Duration | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Carry(Part):
    """A value handed from pass to pass."""

    init: Value
    next: Value


@dataclass(frozen=True, slots=True, eq=False)
class Repeat(Kind):
    """Runs `nodes` pass after pass: until a condition is true after one, or while one is before."""

    NAME: ClassVar[str] = "repeat"
    nodes: Mapping[Node, Kind]
    until: Expr | Unset = field(default=UNSET, kw_only=True)
    while_: Expr | Unset = field(default=UNSET, kw_only=True)
    max: int | Unset = field(default=UNSET, kw_only=True)
    every: Duration | Expr | Unset = field(default=UNSET, kw_only=True)
    backoff: Backoff | Unset = field(default=UNSET, kw_only=True)
    on_exhausted: Literal["fail", "done"] | Unset = field(default=UNSET, kw_only=True)
    keep: int | Unset = field(default=UNSET, kw_only=True)
    carry: Mapping[str, Carry] | Unset = field(default=UNSET, kw_only=True)
    output: Value | Unset = field(default=UNSET, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Group(Kind):
    """Runs `nodes` once, as one unit."""

    NAME: ClassVar[str] = "group"
    nodes: Mapping[Node, Kind]
    output: Value | Unset = field(default=UNSET, kw_only=True)
