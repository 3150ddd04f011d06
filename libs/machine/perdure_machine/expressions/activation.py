"""Builds what CEL is given: only the places that the expression reads, decoded (R12)."""

from __future__ import annotations

from perdure_machine.expressions.branches import Branch
from perdure_machine.expressions.compiler import Program
from perdure_machine.expressions.costs import MAX_COST, cost
from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed
from perdure_machine.expressions.reads import ITEMS, NODES, RUN, WHOLE_ROOTS, Read
from perdure_machine.expressions.scope import Scope
from perdure_machine.expressions.values import MAX_BYTES, Json, decode
from perdure_machine.payload import cut

_STAND_INS: dict[bytes, Json] = {b'"': "", b"t": True, b"f": False, b"n": None}


class _Decoder:
    """Decodes for one evaluation and keeps count of the bytes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.left = MAX_BYTES

    def value(self, branch: Branch, data: bytes) -> Json:
        """Return the value of `data` as far as `branch` reads it."""
        if branch.whole:
            return self._whole(data)
        opening = data.lstrip()[:1]
        if opening == b"{":
            return self._members(branch, data)
        if opening == b"[":
            return self._elements(branch, data)
        return _STAND_INS.get(opening, 0)

    def _whole(self, data: bytes) -> Json:
        self._take(len(data))
        return decode(data, self.program.source, loops=self.program.loops)

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ExpressionFailed(
                ExpressionCode.LIMIT,
                f"it reads more than {MAX_BYTES} bytes; only whole values may be larger",
                self.program.source,
            )

    def _members(self, branch: Branch, data: bytes) -> Json:
        members: dict[str, Json] = {}
        for key, below in branch.below.items():
            raw = cut(data, (key,)) if isinstance(key, str) else None
            if raw is not None and not _hides(below, raw):
                members[str(key)] = self.value(below, raw)
        return members

    def _elements(self, branch: Branch, data: bytes) -> Json:
        """Keep the places of the elements that are read; the others hold nothing."""
        found = {key: cut(data, (key,)) for key in branch.below if isinstance(key, int)}
        present = {key: raw for key, raw in found.items() if raw is not None}
        length = max(present, default=-1) + 1
        self._take(length)
        elements: list[Json] = [None] * length
        for key, raw in present.items():
            elements[key] = self.value(branch.below[key], raw)
        return elements


def _hides(branch: Branch, data: bytes) -> bool:
    """Tell whether a null stands where only something inside is read: that is absent."""
    return data == b"null" and not branch.whole and not branch.presence


def activation(program: Program, scope: Scope) -> dict[str, Json]:
    """Return the variables for one evaluation; absent values are left out."""
    decoder = _Decoder(program)
    nodes: dict[str, Json] = {}
    variables: dict[str, Json] = {**{root: {} for root in WHOLE_ROOTS}, NODES: nodes, RUN: {}}
    for (root, node, part), branch in program.branches.items():
        holder = nodes.setdefault(node, {}) if node is not None else variables[RUN]
        data = scope.bytes_at(Read(root, node, part, ()))
        if data is None:
            continue
        if _hides(branch, data.strip()):
            continue
        value = decoder.value(branch, data)
        if root in WHOLE_ROOTS:
            variables[root] = value
        elif isinstance(holder, dict) and part is not None:
            holder[part] = value
    named = variables[ITEMS]
    if isinstance(named, dict):
        variables |= named  # as CEL knows them
    if MAX_BYTES - decoder.left > program.affordable:
        _check_cost(program, scope)
    return variables


def _check_cost(program: Program, scope: Scope) -> None:
    """Look closer at an expression that reads more than it can afford wherever it reads it."""
    sizes = {read: len(scope.bytes_at(read) or b"") for read in program.reads}
    if cost(program.tree, sizes) > MAX_COST:
        raise ExpressionFailed(
            ExpressionCode.LIMIT, "it would multiply what it reads to too much", program.source
        )
