"""Two versions of a workflow, side by side: what becomes of a node, and what changed in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

from perdure_machine.definition.model import Definition, ForEach, Kind, Node, Repeat


def becomes(nodes: Mapping[str, str], new: Definition, node: str) -> str | None:
    """Return the id in the new version of what was `node`, None where it is gone."""
    if node in nodes:
        return nodes[node] or None
    return node if node in new.nodes else None


def check_map(nodes: Mapping[str, str], old: Definition, new: Definition) -> None:
    """Refuse a map of nodes that the two versions cannot have. Raises `InvalidArgument`."""
    found = [FieldViolation(f"nodes.{id_}", why) for id_, why in _problems(nodes, old, new)]
    if found:
        raise InvalidArgument(
            "; ".join(f"{one.field}: {one.description}" for one in found),
            reason=Reason.MIGRATION_INVALID,
            violations=found,
        )


def _problems(
    nodes: Mapping[str, str], old: Definition, new: Definition
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a map of nodes, each with the id that it says something of."""
    for node, target in nodes.items():
        if node not in old.nodes:
            yield node, f"the version that runs leave has no node `{node}`"
        if target and target not in new.nodes:
            yield node, f"the version that runs go to has no node `{target}`"
    taken: dict[str, str] = {}
    for node in old.nodes:
        found = becomes(nodes, new, node)
        if found is None:
            continue
        if found in taken:
            yield (
                node,
                (
                    f"`{taken[found]}` and `{node}` would both become `{found}`;"
                    " say what becomes of the other, nothing if it is gone"
                ),
            )
        taken.setdefault(found, node)


def same_inside(old: Definition, new: Definition, block: str) -> bool:
    """Tell whether scopes of a node that holds a sub-graph can go on in the new version.

    They can if that has the same nodes, of the same kinds and with the same edges and joins; what
    the nodes do, read and try may differ.
    """
    if not _same_opening(old.nodes[block].kind, new.nodes[block].kind):
        return False
    ids = set(old.graphs[block].nodes)
    if ids != set(new.graphs[block].nodes):
        return False
    return all(
        _same_place(old.nodes[id_], new.nodes[id_])
        and (id_ not in old.graphs or same_inside(old, new, id_))
        for id_ in ids
    )


def _same_opening(old: Kind, new: Kind) -> bool:
    match old, new:
        case ForEach(), ForEach():
            return old.batch == new.batch
        case Repeat(), Repeat():
            return old.carry.keys() == new.carry.keys()
        case _:
            return old.name == new.name


def _same_place(old: Node, new: Node) -> bool:
    return (
        old.kind.name == new.kind.name
        and set(old.needs) == set(new.needs)
        and old.rescuers == new.rescuers
        and old.join.kind is new.join.kind
        and _source(old) == _source(new)
    )


def _source(node: Node) -> str | None:
    return node.join.quorum.source if node.join.quorum is not None else None
