"""Compiles CEL once per definition, within limits that keep every evaluation small."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings  # type: ignore[import-untyped]

from perdure_machine.expressions.aliases import Names, without_aliases
from perdure_machine.expressions.branches import Branch, Top, branches
from perdure_machine.expressions.costs import affordable
from perdure_machine.expressions.errors import ExpressionInvalid
from perdure_machine.expressions.functions import EXTENSION
from perdure_machine.expressions.loops import Place, looped_places
from perdure_machine.expressions.reads import (
    ITEMS,
    ROOTS,
    Read,
    children,
    find_reads,
    plain_read,
)
from perdure_machine.expressions.wire import Call, Comprehension, Tree, read_tree

MAX_SOURCE = 2_048
"""Longest expression, in characters."""

MAX_TREE = 1_000
"""Most parts of a compiled expression; macros such as `optMap` repeat what they are given."""

MAX_COMPREHENSIONS = 3
"""Deepest nesting of `map`, `filter`, `all`, `exists` and `cel.bind`."""

ERROR_TYPE = cel.Type.ERROR
"""The type of an answer that is an error; CEL answers with it rather than raising."""

_TIME_PARTS = frozenset(
    f"get{part}"
    for part in (
        "FullYear",
        "Month",
        "Date",
        "DayOfMonth",
        "DayOfWeek",
        "DayOfYear",
        "Hours",
        "Minutes",
        "Seconds",
        "Milliseconds",
    )
)

_UNDECLARED = re.compile(r"undeclared reference to '([^']+)'")
_FIRST_PROBLEM = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")


@dataclass(frozen=True, slots=True)
class Program:
    """One compiled CEL expression; up to `affordable` bytes are never too much for it."""

    source: str
    reads: frozenset[Read]
    plain: Read | None
    branches: Mapping[Top, Branch] = field(repr=False, compare=False)
    tree: Tree = field(repr=False, compare=False)
    loops: bool
    looped: frozenset[Place] = field(repr=False, compare=False)
    affordable: int
    compiled: cel.Expression = field(repr=False, compare=False)


def compile_program(source: str, names: Names = frozenset()) -> Program:
    """Compile CEL text in which loops' items have `names`.

    Raises `ExpressionInvalid` with what is wrong and where.
    """
    if len(source) > MAX_SOURCE:
        raise ExpressionInvalid(
            f"it is {len(source)} characters long; at most {MAX_SOURCE} are allowed", source
        )
    compiled = _compile(source, names)
    tree = without_aliases(read_tree(compiled.serialize()), names)
    _refuse_zones(tree, source)
    size, depth = _measure(tree)
    if size > MAX_TREE:
        raise ExpressionInvalid(f"it has {size} parts; at most {MAX_TREE} are allowed", source)
    if depth > MAX_COMPREHENSIONS:
        raise ExpressionInvalid(f"it nests {depth} loops; at most {MAX_COMPREHENSIONS}", source)
    most = affordable(tree)
    if most == 0:
        raise ExpressionInvalid("it could take too much time or memory", source)
    reads = find_reads(tree, source)
    return Program(
        source=source,
        reads=reads,
        branches=branches(reads),
        plain=plain_read(tree, source),
        tree=tree,
        loops=depth > 0,
        looped=looped_places(tree, source),
        affordable=most,
        compiled=compiled,
    )


@lru_cache(maxsize=256)
def environment(names: Names = frozenset()) -> cel.Env:
    """Return the environment: roots and `names`, without types, and the function libraries."""
    roots = dict.fromkeys((*(root for root in ROOTS if root != ITEMS), *names), cel.Type.DYN)
    libraries = [
        ext_strings.ExtStrings(),
        ext_math.ExtMath(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        EXTENSION,
    ]
    return cel.NewEnv(variables=roots, extensions=libraries)


def _compile(source: str, names: Names) -> cel.Expression:
    if "\0" in source:
        raise ExpressionInvalid("it holds a NUL character", source)
    try:
        compiled = environment(names).compile(source)
    except (RuntimeError, UnicodeError) as error:
        raise _problem(str(error), source) from error
    if compiled.return_type().name().startswith("optional_type"):
        hint = "end it with .orValue(...)"
        raise ExpressionInvalid("its value is an optional, not a value", source, hint)
    return compiled


def _problem(text: str, source: str) -> ExpressionInvalid:
    undeclared = _UNDECLARED.search(text)
    if undeclared:
        hint = "roots are input, nodes.ID.output | status | error and run"
        return ExpressionInvalid(f"nothing is called '{undeclared[1]}'", source, hint)
    first = _FIRST_PROBLEM.search(text.split(" expecting {")[0])
    if first and int(first[2]) > 0:
        return ExpressionInvalid(f"{first[3]} at character {first[2]}", source)
    return ExpressionInvalid(first[3] if first else text, source)


def _refuse_zones(tree: Tree, source: str) -> None:
    """Refuse zone arithmetic: CEL would take it from another tz database than the timers (F006)."""
    if isinstance(tree, Call) and tree.function in _TIME_PARTS and len(tree.args) > 1:
        hint = f"write {tree.function}() without a zone"
        raise ExpressionInvalid("time parts are in UTC only", source, hint)
    for part in children(tree):
        _refuse_zones(part, source)


def _measure(tree: Tree) -> tuple[int, int]:
    """Return the number of parts and the deepest nesting of comprehensions."""
    inner = [_measure(part) for part in children(tree)]
    size = 1 + sum(part_size for part_size, _ in inner)
    depth = max((part_depth for _, part_depth in inner), default=0)
    return size, depth + (1 if isinstance(tree, Comprehension) else 0)
