"""How much an expression may cost, found once at publish from its tree.

CEL budgets loop turns but neither memory nor the copying that `map` and `filter` do, so `s + s`
under a few `cel.bind` makes gigabytes. The estimate is an upper bound in copied bytes, as a
function of how many bytes the expression is given. `affordable` turns it round: so many bytes are
never too many, wherever they are read. Only for more, `cost` looks at what is read where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure_machine.expressions.reads import Read, read_at
from perdure_machine.expressions.values import MAX_BYTES, MAX_ITEMS
from perdure_machine.expressions.wire import (
    Call,
    Collection,
    Comprehension,
    Const,
    Ident,
    Select,
    Tree,
)

MAX_COST = 64 * 1024 * 1024
"""Most bytes that one evaluation may copy, by the estimate; some tens of milliseconds."""

TURNS = 10_000
"""Turns of all loops of one evaluation, which CEL itself bounds."""

_STEP = 16
_ITEM_COPY = 40
_SMALLEST = 64

_FIXED = frozenset(
    {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "@in", "size", "type"}
    | {"_-_", "_*_", "_/_", "_%_", "-_", "contains", "startsWith", "endsWith", "matches"}
    | {"math.sum", "hash.sha256", "uuid"}
    | {"indexOf", "lastIndexOf", "hasValue", "int", "uint", "double", "bool", "timestamp"}
)
"""Functions whose answer is small, however large their arguments are."""

_SCANS = frozenset({"matches", "contains", "indexOf", "lastIndexOf"})


def affordable(tree: Tree) -> int:
    """Return how many bytes the expression may be given at least, 0 if none are few enough."""
    given = MAX_BYTES
    while given >= _SMALLEST:
        if _Estimate(None, given).cost_of(tree) <= MAX_COST:
            return given
        given //= 2
    return 0


def cost(tree: Tree, sizes: Mapping[Read, int]) -> int:
    """Return the most bytes that an evaluation copies when each read has the size in `sizes`."""
    return _Estimate(sizes, 0).cost_of(tree)


@dataclass(frozen=True, slots=True)
class _Value:
    """Bounds of a value: bytes of its JSON, its elements, and the elements of what is inside."""

    size: int
    items: int = 0
    inner_items: int = MAX_ITEMS

    def element(self, size: int) -> _Value:
        """Return the bounds of something inside that has at most `size` bytes."""
        return _Value(size, min(size // 2, self.inner_items), self.inner_items)


_NOTHING = _Value(0)


@dataclass(slots=True)
class _Estimate:
    """One estimate: with the size of each read, or with `given` bytes for any."""

    sizes: Mapping[Read, int] | None
    given: int
    cost: int = 0

    def cost_of(self, tree: Tree) -> int:
        self._value(tree, {}, 1)
        return self.cost

    def _value(self, tree: Tree, bound: Mapping[str, _Value], turns: int) -> _Value:
        read = read_at(tree, bound.keys())
        if read is not None:
            size = self.given if self.sizes is None else self.sizes.get(read, 0)
            return _NOTHING.element(size)
        match tree:
            case Const(size=size):
                return _Value(size)
            case Ident(name=name):
                return bound.get(name, _NOTHING)
            case Select(operand=operand):
                whole = self._value(operand, bound, turns)
                value = whole.element(whole.size)
            case Collection(parts=parts):
                value = _collected([self._value(part, bound, turns) for part in parts])
            case Comprehension() if tree.binds:
                named = self._value(tree.accu_init, bound, turns)
                return self._value(tree.result, {**bound, tree.accu_var: named}, turns)
            case Comprehension():
                value = self._loop(tree, bound, turns)
            case Call(function=function, args=args):
                values = [self._value(part, bound, turns) for part in args]
                self.cost += _scan_cost(function, [arg.size for arg in values]) * turns
                value = _answer(function, values)
        self.cost += (value.size + _STEP) * turns
        return value

    def _loop(self, tree: Comprehension, bound: Mapping[str, _Value], turns: int) -> _Value:
        """Bound a loop without knowing how its list is cut into elements.

        The elements together are no larger than the list, so all turns together cost at most one
        turn with the whole list plus every turn with nothing.
        """
        listed = self._value(tree.iter_range, bound, turns)
        count = max(1, min(listed.items, TURNS // turns))
        grown = self._value(tree.accu_init, bound, turns)
        size, items, inner = grown.size, grown.items, grown.inner_items
        for element, times in ((listed.element(listed.size), 1), (listed.element(0), count)):
            names = {**bound, **dict.fromkeys(tree.iter_vars, element), tree.accu_var: _NOTHING}
            self._value(tree.condition, names, turns * times)
            added = self._value(tree.step, names, turns * times)
            size += added.size * times
            items = max(items, added.items * count)
            inner = max(inner, added.inner_items)
        if isinstance(tree.accu_init, Collection):
            self.cost += count * count * _ITEM_COPY * turns // 2
        grown = _Value(size, items, inner)
        return self._value(tree.result, {**bound, tree.accu_var: grown}, turns)


def _collected(parts: list[_Value]) -> _Value:
    inner = max((max(part.items, part.inner_items) for part in parts), default=MAX_ITEMS)
    return _Value(sum(part.size + 2 for part in parts), len(parts), inner)


def _answer(function: str, args: list[_Value]) -> _Value:
    if function in _FIXED:
        return _Value(8)
    sizes = [arg.size for arg in args]
    inner = max((arg.inner_items for arg in args), default=MAX_ITEMS)
    match function:
        case "_[_]" | "_[?_]" | "_?._":
            return args[0].element(sizes[0])
        case "get":
            values = [args[0], args[0].element(sizes[0]), *args[2:]]
            size = max(value.size for value in values)
            return _Value(size, max(value.items for value in values), inner)
        case "_?_:_" | "orValue" | "or":
            either = args[-2:]
            return _Value(max(sizes[-2:]), max(value.items for value in either), inner)
        case "split":
            return _Value(4 * (sizes[0] + 1), sizes[0] + 1)
        case "json.parse":
            return _NOTHING.element(sizes[0])
        case "lists.range":
            return _Value(8 * MAX_ITEMS, MAX_ITEMS)
        case _:
            return _Value(_text_size(function, args), sum(arg.items for arg in args), inner)


def _text_size(function: str, args: list[_Value]) -> int:
    first, total = args[0].size if args else 0, sum(arg.size for arg in args)
    match function:
        case "replace":
            return first + (first + 1) * args[2].size
        case "join":
            return first + args[0].items * (total - first)
        case "format":
            return 300 * first + 2 * (total - first)
        case "strings.quote":
            return 6 * first
        case "url.encode":
            return 3 * first
        case "json.format":
            return 2 * first + 32
        case _:
            return 2 * total + 32 if function.startswith("base64") else total + 32


def _scan_cost(function: str, sizes: list[int]) -> int:
    """Searching compares anew at each place; the rest reads its arguments once."""
    if function in _SCANS:
        return sizes[0] * sizes[1] // 8
    return sum(sizes) if function in _FIXED else 0
