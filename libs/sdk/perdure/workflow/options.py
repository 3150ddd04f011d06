"""What stands on every node: joins, retries, what is done about a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, TypeAlias

from perdure.workflow.expressions import Expr, Value
from perdure.workflow.parts import UNSET, Duration, Json, Node, Part, Unset

_BEFORE_THE_KIND = ("needs", "join", "cancel_rest", "when")


@dataclass(frozen=True, slots=True, eq=False)
class Quorum(Part):
    """The join of a node that runs when so many of its needs ended well."""

    quorum: int | Expr


Join: TypeAlias = Literal["all", "strict", "any", "settled"] | Quorum


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Retry(Part):
    """One rule of when and how often a failed try is repeated; what is left out the lane says."""

    on: Sequence[str] | Unset = UNSET
    max: int | Unset = UNSET
    base: Duration | Unset = UNSET
    factor: float | Unset = UNSET
    cap: Duration | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Failure(Part):
    """An error of one's own; `output` becomes its details."""

    code: str | Expr
    message: str | Expr | Unset = UNSET
    output: Value | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class CatchThen(Part):
    """Catches a failure: the edges lead to these nodes."""

    then: Sequence[Node]
    when: Expr | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class CatchOutput(Part):
    """Catches a failure: the node ends well with this output."""

    output: Value
    when: Expr | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class FailAs(Part):
    """Replaces the error of a failure, which stays uncaught."""

    fail: Failure
    when: Expr | Unset = UNSET


OnFailure: TypeAlias = CatchThen | CatchOutput | FailAs


@dataclass(frozen=True, slots=True, eq=False)
class Compensation(Part):
    """Takes back what a node did: `work` is a task or a call, with its own retries."""

    work: Kind
    when: Literal["completed", "attempted"] | Unset = UNSET

    def written(self) -> Json:
        """Return the compensation as the document has it."""
        when = {} if isinstance(self.when, Unset) else {"when": self.when}
        return {**self.work.written(), **when}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Kind(Part):
    """A node without its name; the subclasses are the kinds. `needs` are the nodes to end first.

    `compensate` takes back what the node did; of a `Finish` it is whether what completed is.
    `subject` is whom the work is about, `purpose` what it is for, `cost` what a try may cost,
    `spent` what one came to by its answer, `effect_key` what a call's effect is called in its key.
    """

    NAME: ClassVar[str]
    BODY: ClassVar[str] = ""
    """The field that is the whole value of the kind, where that is not an object of its fields."""

    needs: Sequence[Node] | Unset = UNSET
    join: Join | Unset = UNSET
    cancel_rest: bool | Unset = UNSET
    when: Expr | Unset = UNSET
    result: Value | Unset = UNSET
    on_failure: Sequence[OnFailure] | Unset = UNSET
    compensate: Compensation | bool | Unset = UNSET
    retry: Retry | Sequence[Retry] | Unset = UNSET
    timeout: Duration | Unset = UNSET
    deadline: Duration | Expr | Unset = UNSET
    publish: str | Unset = UNSET
    lane: str | Unset = UNSET
    connection: str | Expr | Unset = UNSET
    priority: int | Unset = UNSET
    subject: str | int | Expr | Unset = UNSET
    purpose: str | Unset = UNSET
    cost: float | str | Expr | Unset = UNSET
    spent: float | str | Expr | Unset = UNSET
    effect_key: str | int | Expr | Unset = UNSET

    def written(self) -> Json:
        """Return the node as the document has it."""
        rest = self._members()
        own = {name: rest.pop(name) for name in self._own_names() if name in rest}
        first = {name: rest.pop(name) for name in _BEFORE_THE_KIND if name in rest}
        return {**first, self.NAME: own[self.BODY] if self.BODY else own, **rest}

    def _own_names(self) -> list[str]:
        common = {field.name for field in fields(Kind)}
        return [field.name.rstrip("_") for field in fields(self) if field.name not in common]
