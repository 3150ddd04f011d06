"""Checks at publish that each expression reads only what is there when it is evaluated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from perdure_machine.definition.draft import Draft
from perdure_machine.definition.flow import has_first
from perdure_machine.definition.graph import Needs, reachable
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.sources import Source
from perdure_machine.expressions import Read
from perdure_machine.expressions.reads import (
    ANSWER,
    CALLBACK,
    CARRY,
    CURSOR,
    ERROR,
    INDEX,
    ITEM,
    ITEMS,
    JOIN,
    OUTPUT,
    SIGNAL,
    THIS,
)
from perdure_machine.payload import Path
from perdure_machine.places import holder_of

ReadAt = tuple[Path, Read]

_FILTER = ("signal", "filter")
_LOOKUP = ("effect", "lookup")
_READS_ANSWER = ("found", "output")
_SEEN = "a node sees those that it needs, and what the nodes around it need"
_GIVEN_INSIDE = {
    "for_each": frozenset({ITEM, INDEX, ITEMS}),
    "repeat": frozenset({INDEX, CARRY}),
    "group": frozenset[str](),
}
_HINTS = {
    THIS: ("`this` is there in `compensate` only", "nodes.ID.output is the output of a need"),
    ITEM: ("`item` is there inside of a `for_each` only", ""),
    INDEX: ("`index` is there inside of a `for_each` or a `repeat` only", ""),
    CARRY: ("`carry` is there inside of a `repeat` only", ""),
    CURSOR: ("`cursor` is there in the `source` of a `for_each` only", ""),
    OUTPUT: ("`output` is there in `stop_when` only", "nodes.ID.output is the output of a need"),
    ERROR: ("`error` is there in `on_failure` only", "nodes.ID.error is the error of a need"),
    JOIN: (
        "`join` is there with `join: any` and a quorum only",
        "join.first.id, join.first.output",
    ),
    ANSWER: (
        "`answer` is there in the `found` and the `output` of a `lookup` only",
        "of `http` answer.status, answer.headers, answer.body; of `grpc` answer is the message",
    ),
    SIGNAL: (
        "`signal` is there in the `filter` of a signal only",
        "nodes.ID.output is the data of the signal that node ID took",
    ),
}


class Reading:
    """Checks the reads of one document, graph by graph, an outer one before those in it.

    `containers` has, for every node of the document, the node whose sub-graph it stands in;
    `signals` are the nodes that wait for one.
    """

    def __init__(
        self, containers: Mapping[str, str], signals: Collection[str], problems: Problems
    ) -> None:
        self._containers = containers
        self._signals = signals
        self._problems = problems
        self._seen: dict[str, frozenset[str]] = {"": frozenset()}

    def check(
        self,
        source: Source,
        drafts: Mapping[str, Draft],
        needs: Needs,
        order: Iterable[str] | None,
    ) -> None:
        """Note reads of what is not there when it is read: nodes, and roots out of place."""
        ended = _ended_before(drafts, needs, order or ())
        around = self._seen.get(holder_of(source.container), frozenset())
        for id_, draft in drafts.items():
            ancestors = reachable([id_], needs)
            for path, read in draft.reads:
                own = {id_} if draft.part(path) in ("result", "spent") else set[str]()
                self._check(path, read, around | ancestors | own, needs, id_)
                allowed = source.roots | _own_roots(path, draft)
                check_roots([(path, read)], allowed, self._problems)
                self._check_callback(path, read, source.container)
            _check_quorum(id_, draft, ended, self._problems)
            self._seen[id_] = around | ancestors
            self._check_inside(id_, draft, source.roots)

    def check_undos(self, source: Source, undos: Mapping[str, Draft]) -> None:
        """Note what compensations cannot read: they run when everything has ended."""
        seen = self._seen.get(holder_of(source.container), frozenset()) | set(source.nodes)
        for id_, draft in undos.items():
            for path, read in draft.reads:
                self._check(path, read, seen, {}, id_)
                check_no_callbacks([(path, read)], self._problems)
                allowed = source.roots | {ERROR, THIS} | _answer(path)
                check_roots([(path, read)], allowed, self._problems)

    def check_at_end(self, source: Source, drafts: Mapping[str, Draft]) -> None:
        """Note what nodes that run at the end of a run cannot read; the others have ended then."""
        for id_, draft in drafts.items():
            for path, read in draft.reads:
                self._check(path, read, set(source.nodes), {}, id_)
                check_no_callbacks([(path, read)], self._problems)
                check_roots([(path, read)], frozenset({ERROR, *_answer(path)}), self._problems)

    def check_output(self, reads: Iterable[ReadAt], nodes: Collection[str]) -> None:
        """Note what the output of the whole cannot read, which is evaluated when `nodes` ended."""
        for path, read in reads:
            self._check(path, read, frozenset(nodes), {}, "")
        check_no_callbacks(reads, self._problems)
        check_roots(reads, frozenset(), self._problems)

    def _check_inside(self, id_: str, draft: Draft, roots: frozenset[str]) -> None:
        """Check what is evaluated in the node's own scopes: after all in them, or before any."""
        inside = {node for node, container in self._containers.items() if container == id_}
        for path, read in draft.inner_reads:
            is_before = path[len(draft.path) :][-1:] == ("while",)
            seen = self._seen[id_] if is_before else self._seen[id_] | inside
            self._check(path, read, seen, {}, id_)
            allowed = roots | _GIVEN_INSIDE[draft.kind.name]
            allowed |= {OUTPUT} if path[-1] == "stop_when" else frozenset()
            check_roots([(path, read)], allowed, self._problems)
            self._check_callback(path, read, id_)

    def _check_callback(self, path: Path, read: Read, container: str) -> None:
        """Note a callback of what is no wait that stands in this graph, or in one around it."""
        if read.part != CALLBACK:
            return
        node = str(read.path[0])
        if node not in self._containers:
            self._problems.add(path, f"there is no node '{node}'")
        elif node not in self._signals:
            self._problems.add(path, f"node '{node}' is no `signal`", "name a wait for a signal")
        elif self._containers[node] not in self._around(container):
            reason = f"the wait '{node}' stands in another sub-graph"
            self._problems.add(path, reason, "name one beside this node, or around it")

    def _around(self, container: str) -> Iterator[str]:
        """Return what holds a graph, and what holds the graphs around that."""
        yield container
        while container:
            container = self._containers[holder_of(container)]
            yield container

    def _check(self, path: Path, read: Read, seen: Collection[str], needs: Needs, id_: str) -> None:
        """Note a read of a node that is not among those that are `seen` from where it stands."""
        node = read.node
        if node is None or node in seen:
            return
        if node not in self._containers:
            self._problems.add(path, f"there is no node '{node}'")
        elif node in needs:
            reason = f"it reads node '{node}', which need not have ended before"
            self._problems.add(path, reason, f"add '{node}' to the needs of '{id_}'")
        else:
            inside = self._containers[node]
            where = f"which stands inside of '{inside}'" if inside else "which need not have ended"
            self._problems.add(path, f"it reads node '{node}', {where}", _SEEN)


def check_no_callbacks(reads: Iterable[ReadAt], problems: Problems) -> None:
    """Note callbacks where no wait can begin any more, or none can yet."""
    for path, read in reads:
        if read.part == CALLBACK:
            problems.add(path, "no wait is there to be called back", "hand it out in a node")


def check_roots(reads: Iterable[ReadAt], allowed: frozenset[str], problems: Problems) -> None:
    """Note reads of roots that are there in some places only, where they are not `allowed`."""
    for path, read in reads:
        if read.root in _HINTS and read.root not in allowed:
            problems.add(path, *_HINTS[read.root])


def _own_roots(path: Path, draft: Draft) -> frozenset[str]:
    part = draft.part(path)
    first = {JOIN} if has_first(draft.join) and part != "join" else set[str]()
    error = {ERROR} if part == "on_failure" else set[str]()
    signal = {SIGNAL} if path[len(draft.path) :] == _FILTER else set[str]()
    return frozenset(first | error | signal | _answer(path))


def _answer(path: Path) -> set[str]:
    """Return the root that reads the answer to a look-up, where one is read."""
    is_reading = path[-3:-1] == _LOOKUP and path[-1] in _READS_ANSWER
    return {ANSWER} if is_reading else set()


def _check_quorum(
    id_: str, draft: Draft, ended: Mapping[str, frozenset[str]], problems: Problems
) -> None:
    """Note reads of nodes that need not have ended when the first need has: n never changes."""
    for path, read in draft.reads:
        if draft.part(path) == "join" and read.node is not None and id_ in ended and draft.needs:
            before = frozenset.intersection(*(ended[need] for need in draft.needs))
            if read.node not in before:
                reason = f"'{read.node}' need not have ended when the first of the needs has"
                problems.add(path, reason, "read the input, or a node that all of the needs need")


def _ended_before(
    drafts: Mapping[str, Draft], needs: Needs, order: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Return the nodes that have certainly ended when each node is decided."""
    ended: dict[str, frozenset[str]] = {}
    for id_ in order:
        behind = [ended[need] for need in needs[id_]]
        if behind and id_ in drafts and has_first(drafts[id_].join):
            ended[id_] = frozenset.intersection(*behind)
        else:
            ended[id_] = frozenset(needs[id_]).union(*behind)
    return ended
