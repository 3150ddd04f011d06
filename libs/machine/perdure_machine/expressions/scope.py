"""What a run gives to an expression: payloads as bytes, and a few facts about the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure_machine.expressions.reads import (
    ANSWER,
    CALLBACK,
    ERROR,
    INPUT,
    ITEMS,
    JOIN,
    LOOP_ROOTS,
    RUN,
    SIGNAL,
    Read,
)
from perdure_machine.payload import cut, object_bytes


@dataclass(frozen=True, slots=True)
class NodeValue:
    """A node as expressions see it; `output` and `error` are JSON bytes, None when absent."""

    status: str
    output: bytes | None
    error: bytes | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The run as expressions see it; `started_at` is RFC 3339 text in UTC.

    `callbacks` are the tokens of the nodes that the expressions name.
    """

    id: str
    workflow: str
    version: int
    started_at: str
    org: str
    tags: Mapping[str, str] = field(default_factory=dict)
    callbacks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that the expressions of one node may read; an empty `input` is an absent one.

    `join` is what its join came to, `error` the error that it handles, `signal` the one that its
    filter is asked about, `answer` what its look-up was given, as JSON; `loop` what the sub-graphs
    around it give: `item`, `index`, `carry` and the items that have names.
    """

    input: bytes
    nodes: Mapping[str, NodeValue]
    run: RunFacts
    join: bytes | None = None
    error: bytes | None = None
    loop: Mapping[str, bytes] = field(default_factory=dict)
    signal: bytes | None = None
    answer: bytes | None = None

    def bytes_at(self, read: Read) -> bytes | None:
        """Return the JSON bytes that `read` names, as they came, or None if they are absent."""
        if read.root in LOOP_ROOTS:
            return self._of_loop(read)
        whole = self._part(read)
        return cut(whole, read.path) if whole is not None else None

    def _of_loop(self, read: Read) -> bytes | None:
        if read.root != ITEMS:
            name, path = read.root, read.path
        elif read.path:
            name, path = str(read.path[0]), read.path[1:]
        else:
            return object_bytes(self.loop)
        whole = self.loop.get(name)
        return cut(whole, path) if whole is not None else None

    def _part(self, read: Read) -> bytes | None:
        if read.root == INPUT:
            return self.input or None
        if read.root == JOIN:
            return self.join
        if read.root == ERROR:
            return self.error
        if read.root == SIGNAL:
            return self.signal
        if read.root == ANSWER:
            return self.answer
        if read.root == RUN:
            is_callback = read.part == CALLBACK
            return _json(self.run.callbacks if is_callback else getattr(self.run, str(read.part)))
        node = self.nodes.get(str(read.node))
        if node is None:
            return None
        if read.part == "status":
            return _json(node.status)
        return node.output if read.part == "output" else node.error


def _json(value: str | int | Mapping[str, str]) -> bytes:
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
