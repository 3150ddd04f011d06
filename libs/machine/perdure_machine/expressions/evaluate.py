"""Evaluates expressions and renders templates against what a run has."""

from __future__ import annotations

import json
import re

from perdure_machine.expressions.activation import activation
from perdure_machine.expressions.compiler import ERROR_TYPE, Program
from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed
from perdure_machine.expressions.expression import Choice, Computed, Expression, Reference
from perdure_machine.expressions.loops import check_no_objects
from perdure_machine.expressions.reads import Read
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
from perdure_machine.expressions.values import encode

_NULL = b"null"
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")

_CODES: tuple[tuple[re.Pattern[str], ExpressionCode], ...] = (
    (
        re.compile(r"NOT_FOUND|Index error|optional\.none\(\) dereference"),
        ExpressionCode.ABSENT,
    ),
    (re.compile(r"OUT_OF_RANGE|out of range|overflow"), ExpressionCode.NUMBER_OUT_OF_RANGE),
    (re.compile(r"budget|recursion|limit"), ExpressionCode.LIMIT),
    (re.compile(r"No matching overload|non-message|Unable to convert"), ExpressionCode.TYPE),
)


def render(template: Template, scope: Scope, *, omit_absent: bool = False) -> bytes:
    """Return compact JSON; plain references keep their bytes.

    With `omit_absent` members and elements whose value is absent are left out, and a template that
    is absent as a whole is null; otherwise an absent value fails. Raises `ExpressionFailed`.
    """
    return _render(template.part, scope, omit_absent)


def evaluate_bool(expression: Expression, scope: Scope) -> bool:
    """Return the truth of a condition; only true and false will do. Raises `ExpressionFailed`."""
    value = _value(expression, scope)
    if value == b"true":
        return True
    if value == b"false":
        return False
    raise ExpressionFailed(
        ExpressionCode.TYPE, f"{_shown(value)} is neither true nor false", expression.source
    )


def evaluate_duration(template: Template, scope: Scope) -> float:
    """Return seconds from a duration's text or a number of seconds. Raises `ExpressionFailed`."""
    rendered = _render(template.part, scope, False)
    value = json.loads(rendered)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ExpressionFailed(
            ExpressionCode.TYPE, f"{_shown(rendered)} is no duration", template.source
        )
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ExpressionFailed(ExpressionCode.TYPE, str(error), template.source) from error


def _render(part: Part, scope: Scope, omit_absent: bool) -> bytes:
    rendered = _part(part, scope, omit_absent)
    return _NULL if rendered is None else rendered


def _part(part: Part, scope: Scope, omit_absent: bool) -> bytes | None:
    """Render one part; None is an absent value that is to be left out."""
    match part:
        case Literal(data=data):
            return data
        case Members(entries=entries):
            members = [(name, _part(value, scope, omit_absent)) for name, value in entries]
            return b"{%b}" % b",".join(n + b":" + v for n, v in members if v is not None)
        case Items(parts=parts):
            items = [_part(value, scope, omit_absent) for value in parts]
            return b"[%b]" % b",".join(item for item in items if item is not None)
        case _:
            return _leaf(part, scope, omit_absent)


def _leaf(part: Splice | Text, scope: Scope, omit_absent: bool) -> bytes | None:
    try:
        if isinstance(part, Splice):
            return _value(part.expression, scope)
        return b'"%b"' % b"".join(_piece(piece, scope) for piece in part.pieces)
    except ExpressionFailed as failure:
        if omit_absent and failure.expression_code is ExpressionCode.ABSENT:
            return None
        raise


def _piece(piece: bytes | Expression, scope: Scope) -> bytes:
    """Return what stands between the quotes: text as it was escaped, other values as JSON text."""
    if isinstance(piece, bytes):
        return piece
    value = _value(piece, scope).strip()
    if value.startswith(b'"'):
        return value[1:-1]
    return json.dumps(value.decode(), ensure_ascii=False)[1:-1].encode()


def _value(expression: Expression, scope: Scope) -> bytes:
    match expression.plan:
        case Reference(read=read):
            return _referenced(read, expression, scope)
        case Choice(reads=reads, last=last):
            return _chosen(reads, last, scope)
        case Computed(program=program):
            return encode(_computed(program, scope), program.source)


def _referenced(read: Read, expression: Expression, scope: Scope) -> bytes:
    data = scope.bytes_at(read)
    if data is None:
        raise ExpressionFailed(
            ExpressionCode.ABSENT, f"{expression.source} is absent", expression.source
        )
    return data


def _chosen(reads: tuple[Read, ...], last: Expression | None, scope: Scope) -> bytes:
    for read in reads:
        data = scope.bytes_at(read)
        if data is not None and data.strip() != _NULL:
            return data
    return _value(last, scope) if last else _NULL


def _computed(program: Program, scope: Scope) -> object:
    variables = activation(program, scope)
    check_no_objects(program.looped, variables, program.source)
    try:
        answer = program.compiled.eval(data=variables)
        value = answer.plain_value()
    except SystemError as error:  # how the library says that it has no Python form for a value
        raise _failure("Unable to convert an optional inside the answer", program) from error
    except (RuntimeError, TypeError, ValueError) as error:
        raise _failure(str(error), program) from error
    if answer.type() == ERROR_TYPE:
        raise _failure(str(value), program)
    return value


def _failure(text: str, program: Program) -> ExpressionFailed:
    code = next((code for form, code in _CODES if form.search(text)), ExpressionCode.ERROR)
    return ExpressionFailed(code, _STATUS.sub("", text), program.source)


def _shown(value: bytes) -> str:
    return value[:80].decode("utf-8", "replace")
