"""The reads of an expression as trees, so that a value is taken apart once and only where read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perdure_machine.expressions.reads import Read

Top = tuple[str, str | None, str | None]
"""Root, node and part of a read."""


@dataclass(slots=True)
class Branch:
    """What is read at one place: all of it, whether it is there, or only what is below."""

    whole: bool = False
    presence: bool = False
    below: dict[str | int, Branch] = field(default_factory=dict)


def branches(reads: Iterable[Read]) -> Mapping[Top, Branch]:
    """Return the tree of what is read under each top."""
    tops: dict[Top, Branch] = {}
    for read in reads:
        branch = tops.setdefault((read.root, read.node, read.part), Branch())
        for key in read.path:
            branch = branch.below.setdefault(key, Branch())
        branch.whole = branch.whole or not read.presence
        branch.presence = branch.presence or read.presence
    return tops
