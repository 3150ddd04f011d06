"""The kinds of nodes that hold a sub-graph."""

from __future__ import annotations

from perdure_testkit.simulation.language.place import Node, Place, value_of


def for_each(place: Place) -> Node:
    """Return a loop over a short list; a transform where no sub-graph is to be had."""
    inner = place.inside(["item", "index"])
    if inner is None:
        return _nothing(place)
    random = place.random
    items: object = [random.randrange(4) for _ in range(random.choice((0, 1, 2, 3, 4)))]
    if random.random() < 0.3:
        items = f"${{[{place.number()}, 2]}}"
    body: Node = {"in": items, "nodes": inner}
    if random.random() < 0.7:
        body["concurrency"] = random.randint(1, 3)
    if random.random() < 0.5:
        most = random.choice([{"max": random.randint(0, 2)}, {"max_percent": 50}])
        body["failures"] = most | random.choice([{}, {"then": "stop"}, {"then": "finish"}])
    leaf = next((id_ for id_, node in inner.items() if "task" in node), None)
    if leaf is not None and random.random() < 0.1:
        body |= {"output": {"n": f"${{coalesce(nodes.{leaf}.output.n, 0)}}"}}
        body |= {"stop_when": "output.n > 1"}
    return {"for_each": body}


def repeat(place: Place) -> Node:
    """Return a loop that counts; a transform where no sub-graph is to be had."""
    inner = place.inside(["carry.c", "index"])
    if inner is None:
        return _nothing(place)
    random = place.random
    seen = [value for id_, node in inner.items() if (value := value_of(id_, node)) is not None]
    step = random.choice(["carry.c + 1", "carry.c + 1", f"{random.choice([*seen, 'index'])} + 1"])
    condition = random.choice([("until", ">"), ("while", "<")])
    body: Node = {
        condition[0]: f"carry.c {condition[1]} {random.randrange(4)}",
        "max": random.randint(1, 4),
        "carry": {"c": {"init": f"${{{place.number()}}}", "next": f"${{{step}}}"}},
        "nodes": inner,
    }
    body |= random.choice([{}, {"every": "2s"}, {"backoff": {"base": "1s", "cap": "3s"}}])
    if random.random() < 0.7:
        body["on_exhausted"] = "done"
    return {"repeat": body}


def group(place: Place) -> Node:
    """Return a group; a transform where no sub-graph is to be had."""
    inner = place.inside([])
    if inner is None:
        return _nothing(place)
    seen = [value for id_, node in inner.items() if (value := value_of(id_, node)) is not None]
    shown = place.random.choice([*seen, place.number()])
    return {"group": {"output": {"n": f"${{{shown}}}"}, "nodes": inner}}


def _nothing(place: Place) -> Node:
    return {"transform": {"n": f"${{{place.number()}}}"}}
