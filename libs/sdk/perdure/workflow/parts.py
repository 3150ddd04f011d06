"""What documents are made of, and how each part is written down.

A part is a frozen dataclass whose fields have the names of the document's members; a name that
Python keeps for itself has `_` behind it. A field that is `UNSET` is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Final, TypeAlias

from perdure.workflow.expressions import Expr

Json: TypeAlias = Any
"""What `json` reads and writes."""

Duration: TypeAlias = str | float | timedelta
"""Text such as `500ms`, `10s`, `5m`, `2h`, `3d`, a number of seconds, or a `timedelta`."""


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""What a member is that the document does not have; None is the document's `null`."""

_CONDITIONS = frozenset({"when", "until", "while_", "stop_when", "filter", "found"})
"""Members that hold bare CEL."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """The name of a node: what edges lead to and what expressions read.

    What the node does is said where the workflow is made, under this name, so two nodes may name
    each other. A second `Node` of the same id is another one, which a document refuses.
    """

    id: str

    @property
    def output(self) -> Expr:
        """What the node gave; absent if it was skipped or failed."""
        return self._read["output"]

    @property
    def error(self) -> Expr:
        """Why the node failed; absent if it did not."""
        return self._read["error"]

    @property
    def status(self) -> Expr:
        """How the node ended: `completed`, `failed`, `skipped` or `cancelled`."""
        return self._read["status"]

    @property
    def _read(self) -> Expr:
        return Expr("nodes")[self.id]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of a document."""

    def written(self) -> Json:
        """Return the piece as the document has it."""
        return self._members()

    def _members(self) -> dict[str, Json]:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name.rstrip("_"): _member(name, value) for name, value in named if value is not UNSET
        }


def _member(name: str, value: object) -> Json:
    if name in _CONDITIONS and isinstance(value, Expr):
        return value.text
    return written(value)


def written(value: object) -> Json:
    """Return a value as the document has it. Raises ValueError for two nodes of one id."""
    match value:
        case Expr():
            return str(value)
        case Node():
            return value.id
        case Part():
            return value.written()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return _object(value)
        case Sequence() if not isinstance(value, str):
            return [written(item) for item in value]
    return value


def _object(members: Mapping[Any, object]) -> dict[str, Json]:
    names = [key.id if isinstance(key, Node) else key for key in members]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two nodes have the id '{min(twice)}'")
    return dict(zip(names, map(written, members.values()), strict=True))
