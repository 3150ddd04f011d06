"""How the keys of a step's effects begin: by its place and, where its node says so, by a name (R8).

It is stored on the step when that is first queued, so that no try, retry of the run or migration
gives a call another key, whatever the expression would give by then.
"""

from __future__ import annotations

import json
import re

from perdure_machine.definition.model import Node
from perdure_machine.definition.outside import MAX_EFFECT_NAME
from perdure_machine.expressions import ExpressionCode, ExpressionFailed, Scope, Template, render
from perdure_machine.places import Place
from perdure_machine.view import RunState

_NAMED = ":"
"""Stands between a node and the name that its expression gave; no id of a node has it."""

_NAME = re.compile(r"[!-.0-~]+")


def effect_prefix(run: RunState, place: Place, node: Node, name: str | None = None) -> str:
    """Return how the keys of the step's effects begin: the same in every try of a whole."""
    placed = "/".join(filter(None, (str(run.run_id), place.scope, node.id)))
    return placed if name is None else f"{placed}{_NAMED}{name}"


def unnamed(prefix: str) -> str:
    """Return how the keys would begin if the node gave no name."""
    return prefix.partition(_NAMED)[0]


def effect_name(template: Template | None, scope: Scope) -> str | None:
    """Return what the node's expression calls its effect, None without one.

    Raises `ExpressionFailed`.
    """
    if template is None:
        return None
    value = json.loads(render(template, scope))
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value) if is_name else ""
    if not _NAME.fullmatch(text) or len(text) > MAX_EFFECT_NAME:
        raise ExpressionFailed(
            ExpressionCode.TYPE,
            f"an effect's name is a text of 1 to {MAX_EFFECT_NAME} visible ASCII characters"
            " without /, or a whole number",
            template.source,
        )
    return text
