"""Expressions of a definition as values: what they read, and what is made of it.

`Expr` says CEL. Members are read with `[...]`; comparisons, arithmetic, `&`, `|` and `~` make
larger expressions; `call` and `cel` make all else. As text an expression is `${...}`, so that an
f-string is a template: `f"https://crm.example/people/{INPUT['id']}"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, Union

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(
    "as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|"
    "return|true|var|void|while"
)

Value: TypeAlias = Union["Expr", str, float, bool, Mapping[str, "Value"], Sequence["Value"], None]
"""A template: JSON whose parts may be expressions. A text may hold `${...}` of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A CEL expression; `whole` if it needs no brackets inside another one.

    Comparing makes an expression too, so an `Expr` is neither true nor false, and no key of a dict.
    """

    text: str
    whole: bool = True

    def __getitem__(self, key: str | int) -> Expr:
        """Return the expression that reads a member of an object or an item of a list."""
        return Expr(_inside(self) + _step(key))

    def __str__(self) -> str:
        return f"${{{self.text}}}"

    def __bool__(self) -> NoReturn:
        raise TypeError("an expression has no value yet: join conditions with & | ~")

    def __iter__(self) -> NoReturn:
        raise TypeError("an expression has no value yet, so nothing can be taken from it")

    def __eq__(self, other: Value) -> Expr:  # type: ignore[override]
        return _binary(self, "==", other)

    def __ne__(self, other: Value) -> Expr:  # type: ignore[override]
        return _binary(self, "!=", other)

    def __lt__(self, other: Value) -> Expr:
        return _binary(self, "<", other)

    def __le__(self, other: Value) -> Expr:
        return _binary(self, "<=", other)

    def __gt__(self, other: Value) -> Expr:
        return _binary(self, ">", other)

    def __ge__(self, other: Value) -> Expr:
        return _binary(self, ">=", other)

    def __add__(self, other: Value) -> Expr:
        return _binary(self, "+", other)

    def __sub__(self, other: Value) -> Expr:
        return _binary(self, "-", other)

    def __mul__(self, other: Value) -> Expr:
        return _binary(self, "*", other)

    def __truediv__(self, other: Value) -> Expr:
        return _binary(self, "/", other)

    def __mod__(self, other: Value) -> Expr:
        return _binary(self, "%", other)

    def __and__(self, other: Expr) -> Expr:
        return _binary(self, "&&", other)

    def __or__(self, other: Expr) -> Expr:
        return _binary(self, "||", other)

    def __invert__(self) -> Expr:
        return Expr("!" + _inside(self))


def cel(*parts: str | Expr) -> Expr:
    """Return CEL as written; expressions among the parts are put in: `cel("size(", TAGS, ") > 3")`.

    A single text that names something, such as a `for_each`'s own `as`, is an expression to read
    from: `cel("order")["id"]`.
    """
    text = "".join(_inside(part) if isinstance(part, Expr) else part for part in parts)
    return Expr(text, whole=_NAME.fullmatch(text) is not None)


def call(function: str, *arguments: Value) -> Expr:
    """Return the call of a function: `call("coalesce", ITEM["price"], 0)`."""
    return Expr(f"{function}({', '.join(literal(argument) for argument in arguments)})")


def literal(value: Value) -> str:
    """Return a value as CEL. Raises TypeError for what JSON cannot hold."""
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _binary(left: Expr, operator: str, right: Value) -> Expr:
    other = _inside(right) if isinstance(right, Expr) else literal(right)
    return Expr(f"{_inside(left)} {operator} {other}", whole=False)


def _inside(expression: Expr) -> str:
    return expression.text if expression.whole else f"({expression.text})"


def _step(key: str | int) -> str:
    if isinstance(key, str) and _NAME.fullmatch(key) and not _RESERVED.fullmatch(key):
        return f".{key}"
    return f"[{json.dumps(key, ensure_ascii=False)}]"


INPUT = Expr("input")
"""The run's input."""

RUN = Expr("run")
"""The run itself: `id`, `workflow`, `version`, `started_at`, `org`, `tags`."""

ITEM = Expr("item")
"""The item, inside of a `ForEach`."""

INDEX = Expr("index")
"""The place of the item, or the number of the pass, from 0; inside of a loop."""

CURSOR = Expr("cursor")
"""Where the page begins that is asked for, inside of a `Source`; null for the first."""

CARRY = Expr("carry")
"""What passes hand on, inside of a `Repeat`."""

ERROR = Expr("error")
"""The error that `on_failure` handles: `class`, `code`, `message`, `details`, `node`."""

SIGNAL = Expr("signal")
"""The signal that a `filter` is asked about: `name`, `data`, `id`, `key`."""

ANSWER = Expr("answer")
"""What a look-up was answered, in its `found` and `output`: of `HttpLookup` `status`, `headers` and
`body`, of `GrpcLookup` the message.
"""

THIS = Expr("this")
"""The step that a `Compensation` takes back: `status`, `input`, `output`, `error`."""

JOIN_FIRST = Expr("join.first")
"""The need that ended well first, on nodes that join by `any` or a quorum: `id`, `output`."""
