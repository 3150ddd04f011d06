"""A workflow as a value, and its document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import yaml

from perdure.workflow.expressions import Expr, Value
from perdure.workflow.options import Kind
from perdure.workflow.parts import UNSET, Duration, Json, Node, Part, Unset

ExclusivePolicy: TypeAlias = Literal["queue", "refuse", "replace"]
OnError: TypeAlias = Literal["stop", "finish_others"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Limits(Part):
    """Bounds of the whole run."""

    steps: int | Unset = UNSET
    age: Duration | Unset = UNSET
    cost: float | str | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class Exclusive(Part):
    """Lets one run at a time go on, of all runs of the org with this key."""

    key: str | Expr
    policy: ExclusivePolicy | Unset = UNSET


@dataclass(frozen=True, slots=True, eq=False)
class AtEnd(Part):
    """Has nodes run when a run ends so."""

    on: Literal["completed", "failed", "cancelled", "timed_out", "any"]
    then: Sequence[Node]


@dataclass(frozen=True, slots=True, eq=False)
class Workflow(Part):
    """A definition. `input` is the JSON Schema of the run's input.

    It is only written down here; publishing checks it, and `perdure workflow validate`.
    """

    name: str
    nodes: Mapping[Node, Kind]
    input: Mapping[str, object] | bool | Unset = UNSET
    output: Value | Unset = UNSET
    limits: Limits | Unset = UNSET
    deadline: Duration | Expr | Unset = UNSET
    exclusive: Exclusive | Unset = UNSET
    subject: str | int | Expr | Unset = UNSET
    on_error: OnError | Unset = UNSET
    compensate_on_cancel: bool | Unset = UNSET
    at_end: Sequence[AtEnd] | Unset = UNSET

    def to_json(self) -> str:
        """Return the document as JSON. Raises ValueError for NaN and infinities."""
        return json.dumps(self.written(), ensure_ascii=False, allow_nan=False, indent=2) + "\n"

    def to_yaml(self) -> str:
        """Return the document as YAML, read back as the same values."""
        written: Json = json.loads(self.to_json())
        return yaml.dump(
            written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2
        )


class _Dumper(yaml.SafeDumper):
    """Quotes what a reader would take for a number or for another line; writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar(_TEXT, text, style='"' if _LINE_ENDS.search(text) else None)


_TEXT = "tag:yaml.org,2002:str"
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_EXPONENT = re.compile(r"[-+]?[0-9]*\.?[0-9]+[eE][-+]?[0-9]+")

_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))
