"""Checks at publish that each expression reads only what is there when it is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_machine.definition.draft import Draft
from perdure_machine.definition.flow import has_first
from perdure_machine.definition.graph import Needs, reachable
from perdure_machine.definition.problems import Problems
from perdure_machine.expressions import Read
from perdure_machine.expressions.reads import ERROR, JOIN
from perdure_machine.payload import Path

ReadAt = tuple[Path, Read]

_HINTS = {
    ERROR: ("`error` is there in `on_failure` only", "nodes.ID.error is the error of a need"),
    JOIN: (
        "`join` is there with `join: any` and a quorum only",
        "join.first.id, join.first.output",
    ),
}


def check_reads(
    drafts: Mapping[str, Draft], needs: Needs, order: Iterable[str] | None, problems: Problems
) -> None:
    """Note reads of nodes that do not exist or need not have ended, and of roots out of place."""
    ended = _ended_before(drafts, needs, order or ())
    for id_, draft in drafts.items():
        check_known(draft.reads, needs, problems)
        for path, read in draft.reads:
            check_roots([(path, read)], _roots_at(path, draft), problems)
        _check_ancestors(id_, draft, needs, problems)
        _check_quorum(id_, draft, ended, problems)


def check_known(reads: Iterable[ReadAt], needs: Needs, problems: Problems) -> None:
    """Note reads of nodes that do not exist."""
    for path, read in reads:
        if read.node is not None and read.node not in needs:
            problems.add(path, f"there is no node '{read.node}'")


def check_roots(reads: Iterable[ReadAt], allowed: frozenset[str], problems: Problems) -> None:
    """Note reads of `error` and `join` where they are not `allowed`."""
    for path, read in reads:
        if read.root in _HINTS and read.root not in allowed:
            problems.add(path, *_HINTS[read.root])


def _roots_at(path: Path, draft: Draft) -> frozenset[str]:
    if path[2] == "on_failure":
        return frozenset({ERROR, JOIN}) if has_first(draft.join) else frozenset({ERROR})
    return frozenset({JOIN}) if has_first(draft.join) and path[2] != "join" else frozenset()


def _check_ancestors(id_: str, draft: Draft, needs: Needs, problems: Problems) -> None:
    ancestors = reachable([id_], needs)
    for path, read in draft.reads:
        is_own_result = read.node == id_ and path[2] == "result"
        if read.node in needs and read.node not in ancestors and not is_own_result:
            reason = f"it reads node '{read.node}', which need not have ended before"
            problems.add(path, reason, f"add '{read.node}' to the needs of '{id_}'")


def _check_quorum(
    id_: str, draft: Draft, ended: Mapping[str, frozenset[str]], problems: Problems
) -> None:
    """Note reads of nodes that need not have ended when the first need has: n never changes."""
    for path, read in draft.reads:
        if path[2] == "join" and read.node is not None and id_ in ended and draft.needs:
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
