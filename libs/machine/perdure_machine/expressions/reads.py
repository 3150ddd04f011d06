"""What an expression reads: found in its tree at publish, so that no more is loaded or decoded."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from perdure_machine.expressions.errors import ExpressionInvalid
from perdure_machine.expressions.wire import (
    Call,
    Collection,
    Comprehension,
    Const,
    Ident,
    Select,
    Tree,
)
from perdure_machine.payload import Path

INPUT, NODES, RUN, JOIN, ERROR = "input", "nodes", "run", "join", "error"
ITEM, INDEX, CARRY, ITEMS, OUTPUT = "item", "index", "carry", "items", "output"
CURSOR = "cursor"
THIS = "this"
LOOP_ROOTS = (ITEM, INDEX, CARRY, ITEMS, OUTPUT, CURSOR, THIS)
"""What a sub-graph gives to its nodes; `items` holds the items that the definition names."""

SIGNAL = "signal"
ANSWER = "answer"
WHOLE_ROOTS = (INPUT, JOIN, ERROR, SIGNAL, ANSWER, *LOOP_ROOTS)
"""Roots that are one value each; where most of them may stand is checked at publish."""

ROOTS = (*WHOLE_ROOTS, NODES, RUN)
NODE_PARTS = ("output", "status", "error")
RUN_PARTS = ("id", "workflow", "version", "started_at", "org", "tags")

CALLBACK = "callback()"
"""What `run.callback('node')` reads: the tokens of the nodes that an expression names."""

_CALLBACK_CALL = "callback"
_CALLBACK_PATH = 2
_INDEX = ("_[_]", "_[?_]")
_OPTIONAL_SELECT = "_?._"


@dataclass(frozen=True, slots=True)
class Read:
    """One place that an expression reads.

    `root` is one of `ROOTS`; `node` the node's id under `nodes`; `part` is `output`, `status` or
    `error` of a node, or the field of `run`. `path` leads on from there. With
    `presence` only whether the value is there matters, as in `has(...)`.
    """

    root: str
    node: str | None
    part: str | None
    path: Path
    presence: bool = False


def find_reads(tree: Tree, source: str) -> frozenset[Read]:
    """Return every read of `tree`; raises `ExpressionInvalid` for one that names no place."""
    return frozenset(_read_of(path, source) for path in _chains(tree, frozenset()))


def plain_read(tree: Tree, source: str) -> Read | None:
    """Return the one read that `tree` consists of, or None if it computes anything."""
    if _has_optional(tree):
        return None
    chain = _chain(tree, frozenset())
    return None if chain is None or chain.presence else _read_of(chain, source)


def read_at(tree: Tree, bound: Set[str]) -> Read | None:
    """Return the read that all of `tree` spells, where the names `bound` hide roots."""
    chain = _chain(tree, frozenset(bound))
    return None if chain is None else _read_of(chain, "")


@dataclass(frozen=True, slots=True)
class _Chain:
    root: str
    path: Path
    presence: bool


def _has_optional(tree: Tree) -> bool:
    if isinstance(tree, Select):
        return _has_optional(tree.operand)
    if isinstance(tree, Call) and tree.args:
        return tree.function in (_OPTIONAL_SELECT, "_[?_]") or _has_optional(tree.args[0])
    return False


def _chain(tree: Tree, bound: frozenset[str]) -> _Chain | None:
    """Return the path that `tree` spells from a root, or None if it is no such path."""
    if isinstance(tree, Ident):
        is_root = tree.name in ROOTS and tree.name not in bound
        return _Chain(tree.name, (), False) if is_root else None
    if isinstance(tree, Select):
        below = _chain(tree.operand, bound)
        return below and _Chain(below.root, (*below.path, tree.field), tree.test_only)
    if isinstance(tree, Call) and tree.function in (*_INDEX, _OPTIONAL_SELECT):
        operand, key = tree.args
        below = _chain(operand, bound)
        if below is None or not isinstance(key, Const) or key.value is None:
            return None
        return _Chain(below.root, (*below.path, key.value), False)
    if isinstance(tree, Call) and tree.function == _CALLBACK_CALL:
        return _callback_chain(tree, bound)
    return None


def _callback_chain(tree: Call, bound: frozenset[str]) -> _Chain:
    """Return what a callback reads; one that names no node is refused where it is looked at."""
    target, node = tree.args
    is_named = isinstance(node, Const) and isinstance(node.value, str)
    if not is_named or _chain(target, bound) != _Chain(RUN, (), False):
        return _Chain(RUN, (CALLBACK,), False)
    assert isinstance(node, Const)
    return _Chain(RUN, (CALLBACK, node.value or ""), False)


def _chains(tree: Tree, bound: frozenset[str]) -> Iterator[_Chain]:
    chain = _chain(tree, bound)
    if chain is not None:
        yield chain
        return
    if isinstance(tree, Comprehension):
        yield from _comprehension_chains(tree, bound)
        return
    for part in children(tree):
        yield from _chains(part, bound)


def _comprehension_chains(tree: Comprehension, bound: frozenset[str]) -> Iterator[_Chain]:
    inner = bound | {tree.accu_var}
    yield from _chains(tree.iter_range, bound)
    yield from _chains(tree.accu_init, bound)
    for part in (tree.condition, tree.step):
        yield from _chains(part, inner | set(tree.iter_vars))
    yield from _chains(tree.result, inner)


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the trees directly inside `tree`."""
    match tree:
        case Select(operand=operand):
            return (operand,)
        case Call(args=args):
            return args
        case Collection(parts=parts):
            return parts
        case Comprehension():
            return (tree.iter_range, tree.accu_init, tree.condition, tree.step, tree.result)
        case _:
            return ()


def _read_of(chain: _Chain, source: str) -> Read:
    if chain.root == NODES:
        return _node_read(chain, source)
    if chain.root == RUN:
        return _run_read(chain, source)
    return Read(chain.root, None, None, chain.path, chain.presence)


def _node_read(chain: _Chain, source: str) -> Read:
    node = chain.path[0] if chain.path else None
    part = chain.path[1] if len(chain.path) > 1 else None
    if not isinstance(node, str):
        raise ExpressionInvalid(
            "nodes are named in the expression itself, not computed", source, "nodes.ID.output"
        )
    if part not in NODE_PARTS:
        hint = f"nodes.{node}.output, .status or .error"
        raise ExpressionInvalid(_no_part(f"node '{node}'", part), source, hint)
    return Read(NODES, node, str(part), chain.path[2:], chain.presence)


def _run_read(chain: _Chain, source: str) -> Read:
    part = chain.path[0] if chain.path else None
    if part == CALLBACK:
        return _callback_read(chain, source)
    if part not in RUN_PARTS:
        hint = "one of " + ", ".join(f"run.{name}" for name in (*RUN_PARTS, "callback('node')"))
        raise ExpressionInvalid(_no_part("the run", part), source, hint)
    return Read(RUN, None, str(part), chain.path[1:], chain.presence)


def _callback_read(chain: _Chain, source: str) -> Read:
    if len(chain.path) != _CALLBACK_PATH:
        hint = "run.callback('node'), with the id of a signal node"
        raise ExpressionInvalid("a callback names its node, and is a text", source, hint)
    return Read(RUN, None, CALLBACK, chain.path[1:])


def _no_part(what: str, part: str | int | None) -> str:
    return f"{what} is not one value" if part is None else f"{what} has no '{part}'"
