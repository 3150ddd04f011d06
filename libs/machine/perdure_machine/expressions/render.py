"""Renders templates against what a run has."""

from __future__ import annotations

import json

from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed
from perdure_machine.expressions.evaluate import shown, value_bytes
from perdure_machine.expressions.expression import Expression
from perdure_machine.expressions.scope import Scope
from perdure_machine.expressions.template import (
    Items,
    Literal,
    Members,
    Part,
    Splice,
    Template,
    Text,
)

MAX_RENDERED = 2 * 1024 * 1024
"""Largest rendered template, in bytes: one large payload and what stands around it (F091)."""

_NULL = b"null"


def render(template: Template, scope: Scope, *, omit_absent: bool = False) -> bytes:
    """Return compact JSON; plain references keep their bytes.

    With `omit_absent` members and elements whose value is absent are left out, and a template that
    is absent as a whole is null; otherwise an absent value fails. Raises `ExpressionFailed`.
    """
    rendered = _Rendering(template, scope, omit_absent).part(template.part)
    return _NULL if rendered is None else rendered


def evaluate_duration(template: Template, scope: Scope) -> float:
    """Return seconds from a duration's text or a number of seconds. Raises `ExpressionFailed`."""
    rendered = render(template, scope)
    try:
        value = json.loads(rendered)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{shown(rendered)} is no duration")
        return parse_duration(value)
    except ValueError as error:
        raise ExpressionFailed(ExpressionCode.TYPE, str(error), template.source) from error


class _Rendering:
    """One rendering; stops as soon as it has become too large."""

    def __init__(self, template: Template, scope: Scope, omit_absent: bool) -> None:
        self._template = template
        self._scope = scope
        self._omit_absent = omit_absent
        self._left = MAX_RENDERED

    def part(self, part: Part) -> bytes | None:
        """Render one part; None is an absent value that is to be left out."""
        match part:
            case Literal(data=data):
                return self._counted(data)
            case Members(entries=entries):
                members = [(name, self.part(value)) for name, value in entries]
                return b"{%b}" % b",".join(n + b":" + v for n, v in members if v is not None)
            case Items(parts=parts):
                items = [self.part(value) for value in parts]
                return b"[%b]" % b",".join(item for item in items if item is not None)
            case _:
                return self._leaf(part)

    def _leaf(self, part: Splice | Text) -> bytes | None:
        try:
            if isinstance(part, Splice):
                return self._counted(value_bytes(part.expression, self._scope))
            return b'"%b"' % b"".join(self._piece(piece) for piece in part.pieces)
        except ExpressionFailed as failure:
            if self._omit_absent and failure.expression_code is ExpressionCode.ABSENT:
                return None
            raise

    def _piece(self, piece: bytes | Expression) -> bytes:
        """Return what stands between the quotes: text as it was escaped, else JSON as text."""
        if isinstance(piece, bytes):
            return self._counted(piece)
        value = value_bytes(piece, self._scope).strip()
        if value.startswith(b'"'):
            return self._counted(value[1:-1])
        return self._counted(json.dumps(value.decode(), ensure_ascii=False)[1:-1].encode())

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise ExpressionFailed(
                ExpressionCode.TOO_LARGE,
                f"it renders to more than {MAX_RENDERED} bytes",
                self._template.source,
            )
        return data
