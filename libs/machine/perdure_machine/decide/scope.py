"""What the expressions of a node may read, taken from the draft; asks for what was not loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from perdure_machine.decide.draft import Draft
from perdure_machine.decide.rows import ROWS, with_rows
from perdure_machine.decide.tokens import tokens
from perdure_machine.definition.model import ForEach
from perdure_machine.expressions import Expression, NodeValue, RunFacts, Scope, Template
from perdure_machine.expressions.reads import (
    CARRY,
    CURSOR,
    INDEX,
    INPUT,
    ITEM,
    JOIN,
    LOOP_ROOTS,
    RUN,
    Read,
)
from perdure_machine.node_error import encode_error
from perdure_machine.places import TOP, At, Place, container_of, is_source
from perdure_machine.replacing import replace
from perdure_machine.view import RunState, ScopeState, StepState, ViewTooNarrow, Wanted

_NOTHING_READ = RunFacts("", "", 0, "", "")


def scope_for(
    draft: Draft,
    place: Place,
    expressions: Iterable[Expression | Template | None],
    own: Mapping[str, NodeValue] | None = None,
    *,
    join: Callable[[], bytes | None] | None = None,
    error: bytes | None = None,
) -> Scope:
    """Return what `expressions` read in the scope `place`; `own` are nodes that are just ending.

    `join` gives what they see of their node's join, `error` is the error that they handle.

    Raises `ViewTooNarrow`.
    """
    own = own or {}
    reads = {read for expression in expressions if expression for read in expression.reads}
    others = [read for read in reads if read.node is not None and read.node not in own]
    draft.require(
        {_at(draft, place, read) for read in others},
        outputs={_at(draft, place, read) for read in others if read.part == "output"},
    )
    payload = run_input(draft) if any(read.root == INPUT for read in reads) else b""
    joined = join() if join is not None and any(read.root == JOIN for read in reads) else None
    loop = loop_values(draft, place) if any(read.root in LOOP_ROOTS for read in reads) else {}
    nodes = _Nodes(draft, place, own, _wanting_rows(reads))
    facts = run_facts(draft.run, reads, tokens(draft, place, reads))
    return Scope(payload, nodes, facts, joined, error, loop)


def _wanting_rows(reads: Iterable[Read]) -> frozenset[str]:
    """Return the nodes of whose output the rows are read that it stands for."""
    wanting = (read for read in reads if read.part == "output" and read.path[:1] == (ROWS,))
    return frozenset(str(read.node) for read in wanting)


def loop_values(draft: Draft, place: Place) -> dict[str, bytes]:
    """Return what the sub-graphs around a scope give to its nodes: the inner hides the outer."""
    values: dict[str, bytes] = {}
    while place != TOP:
        scope = draft.scope(place)
        found = _given(draft, scope)
        if scope.item is not None or scope.carry is not None:
            found[INDEX] = str(scope.index).encode()
        for name, value in found.items():
            if value is not None:
                values.setdefault(name, value)
        place = draft.owner(place).place
    return values


def _given(draft: Draft, scope: ScopeState) -> dict[str, bytes | None]:
    if is_source(container_of(scope.scope)):
        return {CURSOR: scope.carry}
    return {ITEM: scope.item, CARRY: scope.carry, _alias(draft, scope.place): scope.item}


def _alias(draft: Draft, place: Place) -> str:
    kind = draft.definition.nodes[container_of(place.scope)].kind
    return kind.alias if isinstance(kind, ForEach) and kind.alias else ITEM


def _at(draft: Draft, place: Place, read: Read) -> At:
    node = str(read.node)
    return At(*draft.place_of(node, place), node)


def run_input(draft: Draft) -> bytes:
    """Return the run's input. Raises `ViewTooNarrow` where it was not loaded."""
    if draft.run.input is None:
        raise ViewTooNarrow(Wanted(input=True))
    return draft.run.input


class _Nodes(Mapping[str, NodeValue]):
    def __init__(
        self,
        draft: Draft,
        place: Place,
        own: Mapping[str, NodeValue],
        wanting_rows: frozenset[str],
    ) -> None:
        self._draft = draft
        self._wanting_rows = wanting_rows
        self._place = place
        self._own = own

    def __getitem__(self, node: str) -> NodeValue:
        value = self._value(node)
        if node not in self._wanting_rows or value.output is None:
            return value
        with_them = with_rows(self._draft, value.output, f"nodes.{node}.output.{ROWS}")
        return replace(value, output=with_them)

    def _value(self, node: str) -> NodeValue:
        if node in self._own:
            return self._own[node]
        step = self._draft.step_of(At(*self._draft.place_of(node, self._place), node))
        if step is None:
            raise KeyError(node)
        return _value(step)

    def __iter__(self) -> Iterator[str]:
        return iter(self._draft.definition.nodes)

    def __len__(self) -> int:
        return len(self._draft.definition.nodes)


def _value(step: StepState) -> NodeValue:
    error = encode_error(step.error) if step.error is not None else None
    return NodeValue(step.status, step.output, error)


def run_facts(
    run: RunState, reads: Iterable[Read], callbacks: Mapping[str, str] = MappingProxyType({})
) -> RunFacts:
    """Return what expressions see of the run itself; most see nothing of it."""
    if all(read.root != RUN for read in reads):
        return _NOTHING_READ
    # A UUIDv7 begins with 48 bits of milliseconds: the database time its coordinator knew.
    milliseconds = run.run_id.int >> 80 if run.begun_ms is None else run.begun_ms
    started = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return RunFacts(
        id=str(run.run_id),
        workflow=run.workflow,
        version=run.workflow_version,
        started_at=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        org=run.org,
        tags=run.tags,
        callbacks=callbacks,
    )
