"""The edges of one graph of a document, and all graphs of a document."""

from __future__ import annotations

from collections.abc import Iterator

from perdure_testkit.simulation.language.place import Document, Node, Nodes

BLOCKS = ("for_each", "repeat", "group")


def graphs_of(document: Document) -> Iterator[Nodes]:
    """Yield the nodes of the document's graph and of every sub-graph, the outer ones first."""
    open_: list[Nodes] = [document["nodes"]]
    while open_:
        nodes = open_.pop(0)
        yield nodes
        open_ += [inner for node in nodes.values() if (inner := inner_of(node)) is not None]


def inner_of(node: Node) -> Nodes | None:
    """Return the sub-graph of a node, if it has one."""
    for kind in BLOCKS:
        if kind in node:
            inner: Nodes = node[kind]["nodes"]
            return inner
    return None


def all_nodes(document: Document) -> Nodes:
    """Return all nodes of a document by id, which is unique in it."""
    return {id_: node for nodes in graphs_of(document) for id_, node in nodes.items()}


def around(document: Document, id_: str) -> str:
    """Return the node of the top graph that a node is, or stands in."""
    for top, node in document["nodes"].items():
        inner = inner_of(node)
        if top == id_ or (inner is not None and id_ in all_nodes({"nodes": inner})):
            return str(top)
    return id_


def named_by(node: Node) -> set[str]:
    """Return the nodes that a switch or a handler of `node` names."""
    switch = node.get("switch", {"cases": []})
    cases = [case["then"] for case in switch["cases"]]
    handled = [handler.get("then", ()) for handler in node.get("on_failure", ())]
    return set().union(*cases, switch.get("else", ()), *handled)


def edges_to(id_: str, nodes: Nodes) -> set[str]:
    """Return the nodes of the same graph that an edge leads from to a node."""
    drawn = {other for other, node in nodes.items() if id_ in named_by(node)}
    return drawn | set(nodes[id_].get("needs", ()))


def leaves(nodes: Nodes) -> list[str]:
    """Return the nodes that no edge leads from."""
    needed = {need for id_ in nodes for need in edges_to(id_, nodes)}
    return [id_ for id_ in nodes if id_ not in needed]
