"""Evaluates expressions against what a run has."""

from __future__ import annotations

import re

from perdure_machine.expressions.activation import activation
from perdure_machine.expressions.compiler import ERROR_TYPE, Program
from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed
from perdure_machine.expressions.expression import Choice, Computed, Expression, Reference
from perdure_machine.expressions.loops import check_no_objects
from perdure_machine.expressions.reads import Read
from perdure_machine.expressions.scope import Scope
from perdure_machine.expressions.values import encode

_NULL = b"null"
_NAMED = re.compile(rf"\b({'|'.join(ExpressionCode)}): (.*?)(?: \[[A-Z_]+\])?$", re.DOTALL)
"""How our own functions tell what they cannot take."""

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


def evaluate_bool(expression: Expression, scope: Scope) -> bool:
    """Return the truth of a condition; only true and false will do. Raises `ExpressionFailed`."""
    value = value_bytes(expression, scope).strip()
    if value == b"true":
        return True
    if value == b"false":
        return False
    raise ExpressionFailed(
        ExpressionCode.TYPE, f"{shown(value)} is neither true nor false", expression.source
    )


def value_bytes(expression: Expression, scope: Scope) -> bytes:
    """Return the expression's value as JSON, by the cheapest way. Raises `ExpressionFailed`."""
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
    return value_bytes(last, scope) if last else _NULL


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
    named = _NAMED.search(text)
    if named:
        return ExpressionFailed(ExpressionCode(named[1]), named[2], program.source)
    code = next((code for form, code in _CODES if form.search(text)), ExpressionCode.ERROR)
    return ExpressionFailed(code, _STATUS.sub("", text), program.source)


def shown(value: bytes) -> str:
    """Return the beginning of a value for an error's text."""
    return value[:80].decode("utf-8", "replace")
