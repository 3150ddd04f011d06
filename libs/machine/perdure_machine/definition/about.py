"""Checks whom the work of a node is about, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import NodeCompiler
from perdure_machine.expressions.values import Json

WORK = ("task", "http", "grpc")
"""The kinds of nodes that do something about somebody."""


def check_about(at: NodeCompiler, kind: str, node: Mapping[str, Json]) -> None:
    """Note a subject or a purpose on a node that does no work of its own."""
    for member in ("subject", "purpose"):
        if member in node and kind not in WORK:
            reason = "this kind of node does nothing about anybody"
            at.problems.add((*at.path, member), reason, f"write it on one of {', '.join(WORK)}")
