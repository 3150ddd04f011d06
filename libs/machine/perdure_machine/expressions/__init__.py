"""Expressions: CEL for what is computed, bytes for what is only referred to (R12, p10)."""

from perdure_machine.expressions.errors import (
    ExpressionCode,
    ExpressionFailed,
    ExpressionInvalid,
)
from perdure_machine.expressions.evaluate import evaluate_bool
from perdure_machine.expressions.expression import Expression, compile_expression
from perdure_machine.expressions.reads import Read
from perdure_machine.expressions.render import evaluate_duration, render
from perdure_machine.expressions.scope import NodeValue, RunFacts, Scope
from perdure_machine.expressions.template import Template, compile_template, parse_template

__all__ = [
    "Expression",
    "ExpressionCode",
    "ExpressionFailed",
    "ExpressionInvalid",
    "NodeValue",
    "Read",
    "RunFacts",
    "Scope",
    "Template",
    "compile_expression",
    "compile_template",
    "evaluate_bool",
    "evaluate_duration",
    "parse_template",
    "render",
]
