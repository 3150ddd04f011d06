"""Compiles the expressions of one node at their places, noting problems and what is read where."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.problems import Problems
from perdure_machine.expressions import (
    Expression,
    ExpressionInvalid,
    Read,
    Template,
    compile_expression,
    parse_template,
)
from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

_BOOL_TEXT = ("true", "false")


class NodeCompiler:
    """Compiles what stands in the node at `path`; `reads` gathers every read with its place.

    `names` are what the loops around it call their items.
    """

    def __init__(self, path: Path, problems: Problems, names: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.problems = problems
        self.names = names
        self.reads: list[tuple[Path, Read]] = []

    def condition(self, holder: Mapping[str, Json], *where: str | int) -> Expression | None:
        """Compile the bare CEL that stands in `holder` under the last part of `where`."""
        source = holder.get(str(where[-1]))
        if source is None:
            return None
        text = str(source).lower() if isinstance(source, bool) else str(source)
        path = (*self.path, *where)
        if text.lstrip().startswith("${"):
            self.problems.add(path, "a condition is bare CEL", "write it without ${ }")
            return None
        try:
            condition = compile_expression(text, self.names)
        except ExpressionInvalid as problem:
            self.problems.add(path, problem.message, problem.hint)
            return None
        self.reads += [(path, read) for read in condition.reads]
        return condition

    def optional(self, holder: Mapping[str, Json], *where: str | int) -> Template | None:
        """Compile the template that may stand in `holder` under the last part of `where`."""
        key = str(where[-1])
        return self.template(holder[key], *where) if key in holder else None

    def templates(self, values: Json, *where: str | int) -> dict[str, Template]:
        """Compile an object of templates."""
        named = values if isinstance(values, dict) else {}
        return {name: self.template(value, *where, name) for name, value in named.items()}

    def template(self, value: Json, *where: str | int) -> Template:
        """Compile the template that stands at `where` in the node."""
        path = (*self.path, *where)
        return template_at(value, path, self.problems, self.reads, self.names)

    def seconds(self, holder: Mapping[str, Json], *where: str | int) -> float | None:
        """Read the duration that may stand in `holder` under the last part of `where`."""
        value = holder.get(str(where[-1]))
        return self.duration(value, where) if isinstance(value, str | int | float) else None

    def duration(self, value: str | float, where: Path) -> float | None:
        """Read a duration, in seconds."""
        return duration_at(value, (*self.path, *where), self.problems)

    def lasting(self, value: Json, *where: str | int) -> Template:
        """Compile the template of a duration that stands at `where` in the node."""
        return lasting_at(value, (*self.path, *where), self.problems, self.reads)


def duration_at(value: str | float, path: Path, problems: Problems) -> float | None:
    """Read a duration that stands at `path`, in seconds."""
    try:
        return parse_duration(value)
    except ValueError as error:
        problems.add_unless_noted(path, str(error))
        return None


def lasting_at(
    value: Json, path: Path, problems: Problems, reads: list[tuple[Path, Read]]
) -> Template:
    """Compile the template of a duration; one without an expression is read at once."""
    template = template_at(value, path, problems, reads)
    if template.constant is not None and isinstance(value, str | int | float):
        duration_at(value, path, problems)
    return template


def template_at(
    value: Json,
    path: Path,
    problems: Problems,
    reads: list[tuple[Path, Read]],
    names: frozenset[str] = frozenset(),
) -> Template:
    """Compile the template that stands at `path`, and add what it reads to `reads`."""

    def report(below: Path, problem: ExpressionInvalid) -> None:
        problems.add((*path, *below), problem.message, problem.hint)

    template = parse_template(value, report, names)
    reads += [(path, read) for read in template.reads]
    _warn_of_bool_text(value, path, problems)
    return template


def _warn_of_bool_text(value: Json, path: Path, problems: Problems) -> None:
    if isinstance(value, dict):
        for key, member in value.items():
            _warn_of_bool_text(member, (*path, key), problems)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _warn_of_bool_text(item, (*path, index), problems)
    elif isinstance(value, str) and value.lower() in _BOOL_TEXT:
        problems.warn(path, f"'{value}' is text, not a truth value", "write it without quotes")


def texts(value: Json) -> list[str]:
    """Return the items of a list as text; of anything else, none."""
    return [str(item) for item in value] if isinstance(value, list) else []


def mapping(value: Json) -> dict[str, Json]:
    """Return an object; of anything else, an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[dict[str, Json]]:
    """Return the items of a list as objects; of anything else, none."""
    return [mapping(item) for item in value] if isinstance(value, list) else []
