"""Where in a run a step stands: the scope that it is in, and its node there.

A scope is one instance of a sub-graph: an item of a `for_each`, a pass of a `repeat`, the inside of
a `group`. Scopes nest, so a scope has a path such as `batch[17].poll[2]`; the top one's is empty.
Its generation tells it from the same scope of an earlier try of the whole.
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A scope of a run: its path and its generation."""

    scope: str
    generation: int


class At(NamedTuple):
    """A node in a scope; a run has at most one step for each."""

    scope: str
    generation: int
    node: str

    @property
    def place(self) -> Place:
        """The scope that the node stands in."""
        return Place(self.scope, self.generation)


TOP = Place("", 0)
"""The scope of the nodes that stand in no sub-graph."""


def at_top(node: str) -> At:
    """Return a node of the top scope."""
    return At(TOP.scope, TOP.generation, node)


def inner_scope(scope: str, node: str, index: int) -> str:
    """Return the path of the `index`-th scope of a node that stands in `scope`."""
    return f"{inner_scopes(scope, node)}{index}]"


def inner_scopes(scope: str, node: str) -> str:
    """Return how the paths of all scopes inside of a node begin."""
    return f"{scope}.{node}[" if scope else f"{node}["


def page_scope(scope: str, node: str, index: int) -> str:
    """Return the path of the `index`-th page that a `for_each` in `scope` gets its items from."""
    return inner_scope(scope, source_of(node), index)


def source_of(node: str) -> str:
    """Return what holds the graph that gets the items of a `for_each`; no node is called so."""
    return f"{node}@"


def holder_of(container: str) -> str:
    """Return the node that a graph belongs to, whether it is its own or that of its source."""
    return container.removesuffix("@")


def is_source(container: str) -> bool:
    """Tell whether a graph gets the items of a `for_each`."""
    return container.endswith("@")


def container_of(scope: str) -> str:
    """Return the node whose sub-graph a scope is an instance of; empty for the top."""
    return scope.rpartition(".")[2].partition("[")[0]
