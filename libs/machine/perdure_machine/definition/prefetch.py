"""What a decision may read after a node ends, found once at publish, so that no more is loaded.

It is found for runs in which nothing failed uncaught; the others ask for what they read beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from perdure_machine.definition.draft import Draft
from perdure_machine.definition.graph import Needs, reachable
from perdure_machine.definition.model import Finish, JoinKind, Prefetch, Switch
from perdure_machine.expressions import Read
from perdure_machine.expressions.reads import INPUT, JOIN

_CONTENT = ("output", "error")


class Prefetches:
    """Computes the prefetch of each node of one graph.

    `last_reads` are read once all its nodes have ended, `run_reads` when the run ends.
    """

    def __init__(
        self,
        drafts: Mapping[str, Draft],
        dependents: Needs,
        rescuers: Mapping[str, frozenset[str]],
        order: Iterable[str],
        last_reads: frozenset[Read],
        run_reads: frozenset[Read],
    ) -> None:
        self._drafts = drafts
        self._dependents = dependents
        self._rescuers = rescuers
        self._last_reads = last_reads
        self._run_reads = run_reads
        self._skippable = self._all_skippable(order)

    def at_start(self) -> Prefetch:
        """Return what the first decision of a run may read."""
        roots = [id_ for id_, draft in self._drafts.items() if not draft.needs]
        return self._prefetch(None, [(id_, True) for id_ in roots])

    def after(self, id_: str) -> Prefetch:
        """Return what the decision after the end of node `id_` may read."""
        return self._prefetch(id_, self._edges_well(id_))

    def _prefetch(self, ended: str | None, first: Iterable[tuple[str, bool]]) -> Prefetch:
        affected, ending = self._affected(first)
        steps = set(affected)
        outputs: set[str] = set()
        reads: set[Read] = set()
        for id_ in affected:
            own = set(self._reads_at_start(id_))
            steps.update(self._drafts[id_].needs)
            outputs |= self._firsts(id_, own)
            reads |= own
        if ended is not None:
            draft = self._drafts[ended]
            own = {read for one in (draft.result, draft.spent) if one for read in one.reads}
            steps.add(ended)
            outputs |= self._firsts(ended, own)
            reads |= own
        if self._may_be_last(ended, ending):
            reads |= self._last_reads
        named = {read.node for read in reads if read.node is not None}
        outputs |= {read.node for read in reads if read.node and read.part in _CONTENT}
        return Prefetch(
            steps=frozenset(steps | named | outputs),
            outputs=frozenset(outputs),
            input=any(read.root == INPUT for read in reads),
        )

    def _reads_at_start(self, id_: str) -> Iterator[Read]:
        draft = self._drafts[id_]
        yield from draft.reads_at_start()
        if isinstance(draft.kind, Finish) and draft.kind.output is None:
            yield from self._run_reads

    def _firsts(self, id_: str, reads: Iterable[Read]) -> frozenset[str]:
        """Return the nodes of which one is `join.first`, if the reads are of that."""
        reads_join = any(read.root == JOIN for read in reads)
        return frozenset(self._drafts[id_].needs) if reads_join else frozenset()

    def _affected(self, first: Iterable[tuple[str, bool]]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the nodes that may be decided now, and those of them that may also end now.

        An edge is a node and whether it arrives well; else it arrives skipped.
        """
        seen: set[tuple[str, bool]] = set()
        ending: set[str] = set()
        open_ = list(first)
        while open_:
            edge = open_.pop()
            if edge in seen:
                continue
            seen.add(edge)
            onward = list(self._onward(*edge))
            if onward or self._ends_at_once(*edge):
                ending.add(edge[0])
            open_ += onward
        return frozenset(id_ for id_, _ in seen), frozenset(ending)

    def _onward(self, id_: str, well: bool) -> Iterator[tuple[str, bool]]:
        """Yield the edges that node `id_` may send on at once when an edge arrives there."""
        if self._may_run(id_, well) and self._drafts[id_].kind.inline:
            yield from self._edges_well(id_)
        if self._may_be_skipped(id_, well):
            yield from ((other, False) for other in self._dependents[id_])

    def _ends_at_once(self, id_: str, well: bool) -> bool:
        runs_inline = self._may_run(id_, well) and self._drafts[id_].kind.inline
        return runs_inline or self._may_be_skipped(id_, well)

    def _may_run(self, id_: str, well: bool) -> bool:
        kind = self._drafts[id_].join.kind
        return well or kind in (JoinKind.ALL, JoinKind.SETTLED)

    def _may_be_skipped(self, id_: str, well: bool) -> bool:
        """Tell whether the node may be skipped by its condition, or by its join."""
        draft = self._drafts[id_]
        if draft.when is not None and self._may_run(id_, well):
            return True
        if draft.join.kind is JoinKind.STRICT:
            return id_ in self._skippable
        return not well and id_ in self._skippable and draft.join.kind is not JoinKind.SETTLED

    def _edges_well(self, id_: str) -> Iterator[tuple[str, bool]]:
        """Yield the edges from a node that ended well."""
        picks = isinstance(self._drafts[id_].kind, Switch)
        for other in self._dependents[id_]:
            rescues = other in self._rescuers[id_]
            if not rescues:
                yield other, True
            if rescues or picks:
                yield other, False

    def _may_be_last(self, ended: str | None, ending: frozenset[str]) -> bool:
        if ended is None:
            return ending == self._drafts.keys()
        return reachable([ended], self._dependents) <= ending

    def _all_skippable(self, order: Iterable[str]) -> frozenset[str]:
        """Return the nodes that may be skipped: by their own condition, or by their join."""
        found: set[str] = set()
        for id_ in order:
            draft = self._drafts[id_]
            behind = [self._edge_may_be_skipped(need, id_, found) for need in draft.needs]
            if draft.when is not None or _skipped_by_join(draft.join.kind, behind):
                found.add(id_)
        return frozenset(found)

    def _edge_may_be_skipped(self, need: str, id_: str, skippable: set[str]) -> bool:
        draft = self._drafts[need]
        catches = any(handler.then is not None for handler in draft.on_failure)
        return (
            need in skippable
            or catches
            or isinstance(draft.kind, Switch)
            or id_ in self._rescuers[need]
        )


def _skipped_by_join(kind: JoinKind, behind: list[bool]) -> bool:
    """Tell whether a join may skip its node, given which of its edges may arrive skipped."""
    match kind:
        case JoinKind.ALL | JoinKind.ANY:
            return bool(behind) and all(behind)
        case JoinKind.STRICT | JoinKind.QUORUM:
            return any(behind)
        case JoinKind.SETTLED:
            return False
