"""Finds what `map` and `filter` loop over, because only lists have an order.

CEL walks the members of an object in an order that differs from process to process, so a list made
from them would too. Where a loop's range can be an object of the data, its place is noted and
checked before each evaluation; where nobody can tell, the expression is refused at publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed, ExpressionInvalid
from perdure_machine.expressions.reads import ROOTS, children
from perdure_machine.expressions.values import Json
from perdure_machine.expressions.wire import (
    Call,
    Collection,
    Comprehension,
    Const,
    Ident,
    Select,
    Tree,
)

Place = tuple[str | int | None, ...]
"""A path from the roots; None stands for every member or element."""

Places = frozenset[Place] | None
"""Where a value may come from: no place is one that is surely no object, None is unknown."""

_NOWHERE: Places = frozenset()
_SAME = frozenset({"dyn", "value", "optional.of", "optional.ofNonZeroValue", "orValue", "or"})
_OBJECTS = frozenset({"json.parse", "merge", "group", "get"})
"""Functions that may give an object that stands nowhere."""

_ORDERED = frozenset({"slice", "distinct", "sort"})
"""Functions that give some elements of the list that they are given."""

_KEYED = frozenset({"_[_]", "_[?_]", "_?._"})

Bound = Mapping[str, Places]


def looped_places(tree: Tree, source: str) -> frozenset[Place]:
    """Return the places that must not be objects; raises `ExpressionInvalid` if one is unknown."""
    found: set[Place] = set()
    _walk(tree, {}, found, source)
    return frozenset(found)


def check_no_objects(places: Iterable[Place], values: Mapping[str, Json], source: str) -> None:
    """Refuse a loop over an object by name."""
    for place in places:
        if any(isinstance(value, dict) for value in _values_at(dict(values), place)):
            raise ExpressionFailed(
                ExpressionCode.TYPE, "map and filter take lists; an object has no order", source
            )


def _walk(tree: Tree, bound: Bound, found: set[Place], source: str) -> None:
    if not isinstance(tree, Comprehension):
        for part in children(tree):
            _walk(part, bound, found, source)
        return
    _walk(tree.iter_range, bound, found, source)
    _walk(tree.accu_init, bound, found, source)
    if isinstance(tree.accu_init, Collection) and not tree.binds:
        places = _origin(tree.iter_range, bound)
        if places is None:
            hint = "map and filter take lists; an object has no order"
            raise ExpressionInvalid("nobody can tell whether it loops over a list", source, hint)
        found |= places
    for part in (tree.condition, tree.step, tree.result):
        _walk(part, _inside(tree, bound), found, source)


def _inside(tree: Comprehension, bound: Bound) -> Bound:
    if tree.binds:
        return {**bound, tree.accu_var: _origin(tree.accu_init, bound)}
    elements = _elements(tree.iter_range, bound)
    return {**bound, **dict.fromkeys(tree.iter_vars, elements), tree.accu_var: _NOWHERE}


def _origin(tree: Tree, bound: Bound) -> Places:
    """Return where the value of `tree` may come from."""
    match tree:
        case Ident(name=name):
            return bound.get(name, frozenset({(name,)}) if name in ROOTS else _NOWHERE)
        case Select(operand=operand, field=field):
            return _below(_origin(operand, bound), field)
        case Collection(is_map=is_map):
            return None if is_map else _NOWHERE
        case Comprehension():
            return _origin(tree.result, _inside(tree, bound)) if tree.binds else _NOWHERE
        case Call(function=function, args=args) if function in _KEYED:
            key = args[1].value if isinstance(args[1], Const) else None
            return _below(_origin(args[0], bound), key)
        case Call(function=function) if function in _OBJECTS:
            return None
        case Call(function=function, args=args) if function in _SAME:
            return _union(_origin(part, bound) for part in args)
        case Call(function="_?_:_", args=args):
            return _union(_origin(part, bound) for part in args[1:])
        case _:
            return _NOWHERE


def _elements(tree: Tree, bound: Bound) -> Places:
    """Return where the elements of the list `tree` may come from."""
    match tree:
        case Collection(parts=parts, is_map=False):
            return _union(_origin(part, bound) for part in parts)
        case Comprehension() if not tree.binds:
            return _added(tree.step, _inside(tree, bound))
        case Comprehension():
            return _elements(tree.result, _inside(tree, bound))
        case Call(function="_+_", args=args):
            return _union(_elements(part, bound) for part in args)
        case Call(function=function, args=args) if function in _ORDERED:
            return _elements(args[0], bound)
        case _:
            return _below(_origin(tree, bound), None)


def _added(step: Tree, bound: Bound) -> Places:
    """Return where what a loop's step puts into its list may come from."""
    match step:
        case Call(function="_?_:_", args=args):
            return _union(_added(part, bound) for part in args[1:])
        case Call(function="_+_", args=args):
            return _union(_elements(part, bound) for part in args)
        case _:
            return _NOWHERE


def _below(places: Places, key: str | int | None) -> Places:
    return None if places is None else frozenset((*place, key) for place in places)


def _union(all_places: Iterable[Places]) -> Places:
    found: set[Place] = set()
    for places in all_places:
        if places is None:
            return None
        found |= places
    return frozenset(found)


def _values_at(value: Json, place: Place) -> Iterable[Json]:
    if not place:
        yield value
        return
    key, rest = place[0], place[1:]
    if isinstance(value, dict):
        inner = list(value.values()) if key is None else [value[k] for k in (key,) if k in value]
    elif isinstance(value, list):
        inner = value if key is None else [v for index, v in enumerate(value) if index == key]
    else:
        inner = []
    for item in inner:
        yield from _values_at(item, rest)
