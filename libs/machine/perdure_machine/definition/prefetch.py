"""What a decision may read after a node ends, found once at publish, so that no more is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.definition.draft import Draft
from perdure_machine.definition.graph import Needs, reachable
from perdure_machine.definition.model import Prefetch
from perdure_machine.expressions import Read
from perdure_machine.expressions.reads import INPUT

_CONTENT = ("output", "error")


class Prefetches:
    """Computes the prefetch of each node from the drafts and the graph."""

    def __init__(
        self,
        drafts: Mapping[str, Draft],
        dependents: Needs,
        order: Iterable[str],
        output_reads: frozenset[Read],
    ) -> None:
        self._drafts = drafts
        self._dependents = dependents
        self._output_reads = output_reads
        self._skippable = _skippable(drafts, order)

    def at_start(self) -> Prefetch:
        """Return what the first decision of a run may read."""
        roots = [id_ for id_, draft in self._drafts.items() if not draft.needs]
        return self._prefetch(None, roots)

    def after(self, id_: str) -> Prefetch:
        """Return what the decision after the end of node `id_` may read."""
        return self._prefetch(id_, self._dependents[id_])

    def _prefetch(self, ended: str | None, first: Iterable[str]) -> Prefetch:
        affected, ending = self._affected(first)
        reads: set[Read] = set()
        steps = set(affected)
        for id_ in affected:
            steps.update(self._drafts[id_].needs)
            reads.update(self._drafts[id_].reads_at_start())
        if ended is not None:
            steps.add(ended)
            result = self._drafts[ended].result
            reads |= result.reads if result else frozenset()
        if self._may_be_last(ended, ending):
            reads |= self._output_reads
        named = {read.node for read in reads if read.node is not None}
        outputs = {read.node for read in reads if read.node and read.part in _CONTENT}
        return Prefetch(
            steps=frozenset(steps | named),
            outputs=frozenset(outputs),
            input=any(read.root == INPUT for read in reads),
        )

    def _affected(self, first: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the nodes that may be decided now, and those of them that may also end now."""
        affected: set[str] = set()
        ending: set[str] = set()
        open_ = [(id_, False) for id_ in first]
        while open_:
            id_, behind_skipped = open_.pop()
            affected.add(id_)
            if id_ not in ending and self._may_end_at_once(id_, behind_skipped):
                ending.add(id_)
                open_ += [(other, True) for other in self._dependents[id_]]
        return frozenset(affected), frozenset(ending)

    def _may_end_at_once(self, id_: str, behind_skipped: bool) -> bool:
        draft = self._drafts[id_]
        return (
            draft.kind.inline
            or draft.when is not None
            or (behind_skipped and id_ in self._skippable)
        )

    def _may_be_last(self, ended: str | None, ending: frozenset[str]) -> bool:
        if ended is None:
            return ending == self._drafts.keys()
        return reachable([ended], self._dependents) <= ending


def _skippable(drafts: Mapping[str, Draft], order: Iterable[str]) -> frozenset[str]:
    """Return the nodes that may be skipped: by their own condition, or with all that they need."""
    found: set[str] = set()
    for id_ in order:
        needs = drafts[id_].needs
        if drafts[id_].when is not None or (needs and found.issuperset(needs)):
            found.add(id_)
    return frozenset(found)
