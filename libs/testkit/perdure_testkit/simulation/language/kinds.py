"""The kinds of nodes: a function of the place where the node is to stand for each."""

from __future__ import annotations

from collections.abc import Callable

from perdure_testkit.simulation.language.blocks import for_each, group, repeat
from perdure_testkit.simulation.language.place import Node, Place, signal_key, signal_name


def _task(place: Place) -> Node:
    node: Node = {"task": {"handler": "work"}}
    if place.random.random() < 0.5:
        node["task"]["input"] = {"n": f"${{{place.number()}}}"}
    if place.random.random() < 0.1:
        node["lane"] = "slow"
    return node


def _http(place: Place) -> Node:
    looked_up = {"kind": "reconcile", "lookup": {"url": "https://outside.example/done"}}
    keyed: list[object] = ["provider", "provider", {"kind": "provider", "keep": "8s"}]
    effects = [*keyed, "none", looked_up]
    effect = place.random.choice([*effects, None])
    call: Node = {"url": "https://outside.example/do"}
    if effect is not None:
        call |= {"method": "POST", "effect": effect}
    named = {"effect_key": "of-${run.workflow}"} if effect in ("none", keyed[-1]) else {}
    return {"http": call, **named}


def _wait(place: Place) -> Node:
    return {"wait": place.random.choice(["0s", "1s", "10s", "40s"])}


def _signal(place: Place) -> Node:
    """Return a wait for a signal of its own, which the simulation's clients send once."""
    if place.depth:
        return _wait(place)
    body = {"name": signal_name(place.id)}
    if place.random.random() < 0.5:
        body["key"] = signal_key("${run.id}", place.id)
    return {"signal": body}


def _run(place: Place) -> Node:
    """Return a node that starts a child; its workflow is made by the same seed."""
    if place.depth == DEPTH_OF_CHILD:
        return _transform(place)
    body: Node = {"workflow": CHILD, "input": {"n": f"${{{place.number()}}}"}}
    if place.random.random() < 0.3:
        body["wait"] = False
    if place.random.random() < 0.5:
        body["on_parent_end"] = place.random.choice(["cancel", "abandon", "wait"])
    return {"run": body}


def _transform(place: Place) -> Node:
    return {"transform": {"n": f"${{{place.number()} + 1}}"}}


def _switch(place: Place) -> Node:
    cases = [
        {"when": f"{place.number()} > {place.random.randrange(3)}", "then": place.some_later()}
        for _ in range(place.random.randint(1, 2))
    ]
    switch: Node = {"cases": cases}
    if place.random.random() < 0.7:
        switch["else"] = place.some_later()
    return {"switch": switch}


def _fail(place: Place) -> Node:
    return {"fail": {"code": "MADE", "message": f"n is ${{{place.number()}}}"}}


def _finish(place: Place) -> Node:
    return {"finish": {"output": f"${{{place.number()}}}"} if place.random.random() < 0.7 else {}}


CHILD = "child"
"""The name of the workflow that children run."""

DEPTH_OF_CHILD = 9
"""Where the nodes of a child's definition stand: deeper than any other, so it has no children."""

KINDS: list[tuple[Callable[[Place], Node], int]] = [
    (_task, 20),
    (_http, 16),
    (_transform, 8),
    (_wait, 8),
    (_signal, 6),
    (_switch, 8),
    (_fail, 2),
    (_finish, 1),
    (_run, 3),
    (for_each, 4),
    (repeat, 4),
    (group, 4),
]
"""Every kind of node, with its weight."""
