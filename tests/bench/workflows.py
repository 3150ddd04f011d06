"""The definitions that are measured."""

from __future__ import annotations

import json


def chain(name: str, steps: int) -> str:
    """Return a definition of `steps` tasks in a row."""
    nodes = {
        f"n{i}": {
            "needs": [f"n{i - 1}"] if i else [],
            "task": {"handler": "bench.nothing", "input": {"i": i}},
        }
        for i in range(steps)
    }
    return json.dumps({"name": name, "nodes": nodes})


def loop(name: str, most: int) -> str:
    """Return a definition of a loop of one task for each of the input's `items`, `most` of them."""
    body = {"one": {"task": {"handler": "bench.nothing", "input": "${item}"}}}
    all_items = {"for_each": {"in": "${input.items}", "nodes": body}}
    return json.dumps({"name": name, "limits": {"steps": most + 1}, "nodes": {"all": all_items}})


def pause(name: str) -> str:
    """Return a definition that waits for the input's `seconds`."""
    return json.dumps({"name": name, "nodes": {"only": {"wait": "${input.seconds}"}}})


def reply(name: str) -> str:
    """Return a definition that waits for a signal, with a deadline far ahead."""
    signal = {"name": "reply", "deadline": "90d"}
    return json.dumps({"name": name, "nodes": {"only": {"signal": signal}}})
