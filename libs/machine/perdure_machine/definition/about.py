"""Checks whom the work of a node is about, what it is for, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler
from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.values import Json
from perdure_machine.money import micros
from perdure_machine.payload import Path

WORK = ("task", "http", "grpc")
"""The kinds of nodes that do something outside."""


def check_about(at: NodeCompiler, kind: str, node: Mapping[str, Json]) -> None:
    """Note what stands on a node that does no work of its own, and amounts that are none."""
    for member in ("subject", "purpose", "cost"):
        if member in node and kind not in WORK:
            reason = "this kind of node does no work of its own"
            at.problems.add((*at.path, member), reason, f"write it on one of {', '.join(WORK)}")


def check_spent(at: NodeCompiler, node: Mapping[str, Json]) -> None:
    """Note what tells the cost of a try for which nothing is set aside, or that tells it itself."""
    if "spent" not in node:
        return
    path = (*at.path, "spent")
    if "task" in node:
        at.problems.add(path, "a handler tells itself what it spent", "remove it")
    elif "cost" not in node:
        at.problems.add(path, "nothing is set aside for the node", "add `cost`, an estimate")


def check_amount(value: Json, path: Path, problems: Problems) -> int | None:
    """Read an amount of money that stands at `path`, in millionths."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return micros(str(value))
    except ValueError as problem:
        problems.add_unless_noted(path, str(problem))
        return None
