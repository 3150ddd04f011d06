"""A JSON-like tree of a definition whose texts may be, or contain, expressions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from perdure_machine.expressions.aliases import Names
from perdure_machine.expressions.errors import ExpressionInvalid
from perdure_machine.expressions.expression import Expression, compile_expression
from perdure_machine.expressions.reads import Read
from perdure_machine.expressions.text import Embedded, split_text
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

Report = Callable[[Path, ExpressionInvalid], None]
"""Takes the place of an expression in the tree and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Literal:
    """JSON that holds no expression, in the document's order."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Splice:
    """A text that is wholly `${expr}`: the expression's value, of whatever type."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class Text:
    """A text that contains `${expr}`: `bytes` pieces stand between JSON's quotes already."""

    pieces: tuple[bytes | Expression, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """An object; names are JSON text with their quotes."""

    entries: tuple[tuple[bytes, Part], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    parts: tuple[Part, ...]


Part = Literal | Splice | Text | Members | Items


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template: every place it reads, and its tree."""

    reads: frozenset[Read]
    part: Part = field(repr=False)
    source: str = field(repr=False, compare=False)

    @property
    def constant(self) -> bytes | None:
        """The JSON that this template always renders to, or None if it has expressions."""
        return self.part.data if isinstance(self.part, Literal) else None


def parse_template(value: Json, report: Report, names: Names = frozenset()) -> Template:
    """Compile `value`, in which loops' items have `names`.

    Each expression that cannot be compiled is given to `report`.
    """
    parser = _Parser(report, names)
    part = parser.part(value, ())
    return Template(frozenset(parser.reads), part, _dump(value).decode())


def compile_template(value: Json) -> Template:
    """Compile `value`; raises `ExpressionInvalid` for the first expression that is wrong."""

    def refuse(_path: Path, problem: ExpressionInvalid) -> None:
        raise problem

    return parse_template(value, refuse)


class _Parser:
    """One parsing; gathers what the expressions read."""

    def __init__(self, report: Report, names: Names) -> None:
        self.reads: set[Read] = set()
        self._report = report
        self._names = names

    def part(self, value: Json, path: Path) -> Part:
        match value:
            case dict():
                entries = [(_dump(k), self.part(v, (*path, k))) for k, v in value.items()]
                return _folded(Members(tuple(entries)), [part for _, part in entries])
            case list():
                parts = [self.part(v, (*path, i)) for i, v in enumerate(value)]
                return _folded(Items(tuple(parts)), parts)
            case str():
                return self._text(value, path)
            case _:
                return Literal(_dump(value))

    def _text(self, value: str, path: Path) -> Part:
        try:
            split = split_text(value)
        except ExpressionInvalid as problem:
            self._report(path, problem)
            return Literal(b"null")
        pieces = [self._piece(piece, path) for piece in split]
        expressions = [piece for piece in pieces if isinstance(piece, Expression)]
        self.reads.update(*(expression.reads for expression in expressions))
        if not expressions:
            literal = b"".join(piece for piece in pieces if isinstance(piece, bytes))
            return Literal(b'"%b"' % literal)
        if len(pieces) == 1:
            return Splice(expressions[0])
        return Text(tuple(pieces))

    def _piece(self, piece: str | Embedded, path: Path) -> bytes | Expression:
        if isinstance(piece, str):
            return _dump(piece)[1:-1]
        try:
            return compile_expression(piece.source, self._names)
        except ExpressionInvalid as problem:
            self._report(path, problem)
            return b""


def _folded(container: Members | Items, parts: list[Part]) -> Part:
    """Join literals once here rather than at every rendering."""
    texts = [part.data for part in parts if isinstance(part, Literal)]
    if len(texts) < len(parts):
        return container
    if isinstance(container, Items):
        return Literal(b"[%b]" % b",".join(texts))
    names = [name for name, _ in container.entries]
    pairs = zip(names, texts, strict=True)
    return Literal(b"{%b}" % b",".join(name + b":" + text for name, text in pairs))


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
