"""Where a node of a random definition is to stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Document = dict[str, Any]
Node = dict[str, Any]
Nodes = dict[str, Node]


@dataclass(frozen=True, slots=True)
class Place:
    """What a node may read, what it may lead to, and how it gets a sub-graph of its own.

    `numbers` are expressions for small numbers. `inside` makes a sub-graph whose nodes may also
    read some expressions more; it returns None where the definition is large enough.
    `depth` counts the graphs around.
    """

    random: Random
    id: str
    numbers: Sequence[str]
    later: Sequence[str]
    inside: Callable[[Sequence[str]], Nodes | None]
    depth: int

    def number(self) -> str:
        """Return an expression for a small number."""
        if self.numbers and self.random.random() < 0.8:
            return self.random.choice(self.numbers)
        return "input.n"

    def some_later(self, most: int = 2) -> list[str]:
        """Return some of the nodes that come later."""
        wanted = min(len(self.later), self.random.randint(0, most))
        return sorted(self.random.sample(self.later, wanted))


def value_of(id_: str, node: Node) -> str | None:
    """Return the expression for the number in a node's output, or None if it has none."""
    for kind, member in _NUMBERS.items():
        if kind in node:
            return f"coalesce(nodes.{id_}.output.{member}, 0)"
    return None


def signal_name(id_: str) -> str:
    """Return the name of the signal that a node waits for."""
    return f"go-{id_}"


def signal_key(run_id: str, id_: str) -> str:
    """Return the key that a signal for a node may be sent by."""
    return f"{run_id}-{id_}"


_NUMBERS = {
    "task": "n",
    "http": "n",
    "transform": "n",
    "signal": "n",
    "group": "n",
    "for_each": "count",
    "repeat": "passes",
}
"""Where the output of a kind has a small number."""
