"""Reads the compiled form of an expression, a serialized `cel.expr.CheckedExpr`, into a small tree.

Only the fields that the walk over reads and costs needs are taken; numbers are those of the
published `cel/expr/syntax.proto` and `checked.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_ANY_VALUE = 2
_CHECKED_EXPR = 4
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
_CONST_INT, _CONST_STRING, _CONST_BYTES = 3, 6, 7
_SIGN_BIT, _WORD = 1 << 63, 1 << 64


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; `value` is set for text and int64, the kinds a path can hold."""

    value: str | int | None
    size: int


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable: a root, or a name bound inside the expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`; with `test_only` it is `has(operand.field)`."""

    operand: Tree
    field: str
    test_only: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator; a method's target comes first in `args`."""

    function: str
    args: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """A list or map written out in the expression."""

    parts: tuple[Tree, ...]
    is_map: bool


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What `map`, `filter`, `all`, `exists` and `cel.bind` become."""

    iter_vars: tuple[str, ...]
    accu_var: str
    iter_range: Tree
    accu_init: Tree
    condition: Tree
    step: Tree
    result: Tree

    @property
    def binds(self) -> bool:
        """Whether this is `cel.bind`: a comprehension over nothing that names a value."""
        return isinstance(self.iter_range, Collection) and not self.iter_range.parts


Tree = Const | Ident | Select | Call | Collection | Comprehension


def read_tree(serialized: bytes) -> Tree:
    """Return the tree of what `Expression.serialize()` gave."""
    checked = dict(_fields(serialized))[_ANY_VALUE]
    return _expr(_bytes(dict(_fields(_bytes(checked)))[_CHECKED_EXPR]))


def _expr(data: bytes) -> Tree:
    for number, value in _fields(data):
        reader = _READERS.get(number)
        if reader is not None:
            return reader(_bytes(value))
    return Const(None, 0)


def _const(data: bytes) -> Tree:
    for number, value in _fields(data):
        if number == _CONST_INT and isinstance(value, int):
            return Const(value - _WORD if value & _SIGN_BIT else value, 8)
        if number == _CONST_STRING and isinstance(value, bytes):
            return Const(value.decode(), len(value))
        if number == _CONST_BYTES and isinstance(value, bytes):
            return Const(None, len(value))
    return Const(None, 8)


def _ident(data: bytes) -> Tree:
    return Ident(_string(dict(_fields(data))[1]))


def _select(data: bytes) -> Tree:
    fields = dict(_fields(data))
    return Select(_expr(_bytes(fields[1])), _string(fields[2]), bool(fields.get(3, 0)))


def _call(data: bytes) -> Tree:
    fields = list(_fields(data))
    targets = [_expr(_bytes(value)) for number, value in fields if number == 1]
    args = [_expr(_bytes(value)) for number, value in fields if number == 3]
    return Call(_string(dict(fields)[2]), (*targets, *args))


def _list(data: bytes) -> Tree:
    parts = tuple(_expr(_bytes(value)) for number, value in _fields(data) if number == 1)
    return Collection(parts, is_map=False)


def _struct(data: bytes) -> Tree:
    entries = [dict(_fields(_bytes(value))) for number, value in _fields(data) if number == 2]
    parts = (entry[part] for entry in entries for part in (3, 4) if part in entry)
    return Collection(tuple(_expr(_bytes(part)) for part in parts), is_map=True)


def _comprehension(data: bytes) -> Tree:
    fields = dict(_fields(data))
    names = tuple(_string(fields[number]) for number in (1, 8) if number in fields)
    trees = [_expr(_bytes(fields.get(number, b""))) for number in (2, 4, 5, 6, 7)]
    return Comprehension(names, _string(fields[3]), *trees)


_READERS = {
    _CONST: _const,
    _IDENT: _ident,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _list,
    _STRUCT: _struct,
    _COMPREHENSION: _comprehension,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of one protobuf message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        size, position = _varint(data, position) if kind == 2 else ({1: 8, 5: 4}[kind], position)
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a message was expected where the compiled expression holds a number")
    return value


def _string(value: int | bytes) -> str:
    return _bytes(value).decode()
