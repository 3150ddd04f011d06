"""An expression of a definition, with the way to its value that keeps bytes where it can."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure_machine.expressions import coalesce
from perdure_machine.expressions.aliases import Names
from perdure_machine.expressions.compiler import Program, compile_program
from perdure_machine.expressions.errors import ExpressionInvalid
from perdure_machine.expressions.reads import Read


@dataclass(frozen=True, slots=True)
class Reference:
    """A whole value or a plain path: its bytes are copied (p10)."""

    read: Read


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of `reads` that is neither absent nor null, else `last`, else null; bytes too."""

    reads: tuple[Read, ...]
    last: Expression | None


@dataclass(frozen=True, slots=True)
class Computed:
    """Anything else: goes through CEL."""

    program: Program


Plan = Reference | Choice | Computed


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression: its text, every place it reads, and how its value is found."""

    source: str
    reads: frozenset[Read]
    plan: Plan = field(repr=False, compare=False)


def compile_expression(source: str, names: Names = frozenset()) -> Expression:
    """Compile bare CEL in which loops' items have `names`; raises `ExpressionInvalid`."""
    source = source.strip()
    if not source:
        raise ExpressionInvalid("it is empty", source)
    parts = coalesce.arguments(source)
    if parts is not None:
        return _choice(source, parts, names)
    program = compile_program(coalesce.expand(source), names)
    plan = Reference(program.plain) if program.plain else Computed(program)
    return Expression(source, program.reads, plan)


def _choice(source: str, parts: tuple[str, ...], names: Names) -> Expression:
    reads = tuple(_plain(part, source, names) for part in parts[:-1])
    last = compile_expression(parts[-1], names)
    if isinstance(last.plan, Reference):
        plan = Choice((*reads, last.plan.read), None)
    else:
        plan = Choice(reads, last)
    return Expression(source, frozenset(reads) | last.reads, plan)


def _plain(part: str, source: str, names: Names) -> Read:
    plain = compile_program(part, names).plain if part else None
    if plain is None:
        raise ExpressionInvalid(
            f"'{part}' is no plain path; only the last argument of coalesce may compute", source
        )
    return plain
