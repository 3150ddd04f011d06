"""The kinds of nodes; what each does is in the reference of the definition language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from perdure.workflow.expressions import Expr, Value
from perdure.workflow.options import Kind
from perdure.workflow.parts import UNSET, Duration, Json, Node, Part, Unset

Scalar: TypeAlias = str | float | bool | Expr
Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
ParentEnd: TypeAlias = Literal["cancel", "abandon", "wait"]
EffectKind: TypeAlias = Literal["provider", "reconcile", "none", "repeatable"]


@dataclass(frozen=True, slots=True, eq=False)
class Task(Kind):
    """Calls a named handler; without `input` it is given the run's input.

    A handler that is an expression is one of `one_of`.
    """

    NAME: ClassVar[str] = "task"
    handler: str | Expr
    input: Value | Unset = UNSET
    one_of: Sequence[str] | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class HttpLookup(Part):
    """A request that finds out whether a call was performed; `found` and `output` read `ANSWER`."""

    url: str | Expr
    method: Literal["GET", "HEAD", "POST"] | Unset = UNSET
    headers: Mapping[str, Scalar] | Unset = UNSET
    query: Mapping[str, Scalar] | Unset = UNSET
    body: Value | Unset = UNSET
    found: Expr | bool | Unset = UNSET
    output: Value | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class GrpcLookup(Part):
    """A method that finds out whether a call was performed; `found` and `output` read `ANSWER`."""

    method: str
    request: Value | Unset = UNSET
    service: str | Unset = UNSET
    metadata: Mapping[str, Scalar] | Unset = UNSET
    found: Expr | bool | Unset = UNSET
    output: Value | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Effect(Part):
    """How an outside call may be repeated, how long the provider keeps its key, and what finds out
    whether the call was performed.
    """

    kind: EffectKind
    keep: Duration | Unset = UNSET
    lookup: HttpLookup | GrpcLookup | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Timeouts(Part):
    """How long a connection may take, and how long the other side may send nothing."""

    connect: Duration | Unset = UNSET
    read: Duration | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Http(Kind):
    """Makes one HTTP call."""

    NAME: ClassVar[str] = "http"
    url: str | Expr
    method: Method | Unset = UNSET
    headers: Mapping[str, Scalar] | Unset = UNSET
    query: Mapping[str, Scalar] | Unset = UNSET
    body: Value | Unset = UNSET
    effect: EffectKind | Effect | Unset = UNSET
    success: Sequence[int] | Unset = UNSET
    timeouts: Timeouts | Unset = UNSET
    redirects: int | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Grpc(Kind):
    """Makes one unary call of a gRPC method."""

    NAME: ClassVar[str] = "grpc"
    target: str | Expr
    service: str
    method: str
    request: Value | Unset = UNSET
    metadata: Mapping[str, Scalar] | Unset = UNSET
    plaintext: bool | Unset = UNSET
    effect: EffectKind | Effect | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Wait(Kind):
    """Waits for a duration."""

    NAME: ClassVar[str] = "wait"
    BODY: ClassVar[str] = "duration"
    duration: Duration | Expr


@dataclass(frozen=True, slots=True, eq=False)
class Transform(Kind):
    """Computes a value."""

    NAME: ClassVar[str] = "transform"
    BODY: ClassVar[str] = "value"
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Case(Part):
    """A way out of a switch."""

    when: Expr
    then: Sequence[Node]


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Kind):
    """Takes the edges of its first true case, or those of `else_`."""

    NAME: ClassVar[str] = "switch"
    cases: Sequence[Case]
    else_: Sequence[Node] | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Fail(Kind):
    """Fails with an error of one's own; `output` becomes its details."""

    NAME: ClassVar[str] = "fail"
    code: str | Expr
    message: str | Expr | Unset = UNSET
    output: Value | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Finish(Kind):
    """Ends the run as completed."""

    NAME: ClassVar[str] = "finish"
    output: Value | Unset = UNSET

    def written(self) -> Json:
        """Return the node as the document has it."""
        node = Kind.written(self)
        if "compensate" in node:
            node[self.NAME]["compensate"] = node.pop("compensate")
        return node


@dataclass(frozen=True, slots=True, eq=False)
class Run(Kind):
    """Starts a run of another workflow, and waits for its end unless `wait` is false."""

    NAME: ClassVar[str] = "run"
    workflow: str | Expr
    input: Value | Unset = UNSET
    version: int | Expr | Unset = UNSET
    wait: bool | Unset = UNSET
    on_parent_end: ParentEnd | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class CancelRun(Kind):
    """Asks another run to end as cancelled."""

    NAME: ClassVar[str] = "cancel_run"
    run: str | Expr
    reason: str | Expr | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Signal(Kind):
    """Waits for a signal, sent to the run or by `key`; `filter` reads it as `SIGNAL`.

    Its deadline is the one that every node may have.
    """

    NAME: ClassVar[str] = "signal"
    name: str
    key: str | Expr | Unset = UNSET
    filter: Expr | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Emit(Kind):
    """Sends a signal by `key`, or to the run of the id `run`."""

    NAME: ClassVar[str] = "emit"
    name: str
    key: str | Expr | Unset = UNSET
    run: str | Expr | Unset = UNSET
    data: Value | Unset = UNSET
