"""Random small workflows for property tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

PAYLOADS = (b"null", b'{"n": 1}', b"18446744073709551616", b'{"n": "text"}')
"""Outputs that some of the workflows' expressions take and others do not."""

INPUTS = (b'{"n": 1}', b'{"n": 0}', b"{}")
"""Inputs of which the last lacks what most of the workflows read."""

_CONDITIONS = (None, None, "true", "false", "input.n > 0")
_RESULTS: tuple[object, ...] = (None, None, None, {"kept": True}, "${input.n}", "${input.missing}")


@st.composite
def documents(draw: st.DrawFn, name: str = "flow") -> bytes:
    """Return a valid document of one to six nodes of all kinds.

    Waits and retries take 20 s or more, so that a test's own slowness makes nothing due.
    """
    ids = [f"n{i}" for i in range(draw(st.integers(1, 6)))]
    nodes = {id_: _node(draw, ids[:i]) for i, id_ in enumerate(ids)}
    document: dict[str, object] = {"name": name, "nodes": nodes, "limits": {"age": "1d"}}
    if draw(st.booleans()):
        document["output"] = {id_: f"${{nodes.{id_}.output}}" for id_ in ids}
    return json.dumps(document).encode()


def _node(draw: st.DrawFn, earlier: Sequence[str]) -> dict[str, object]:
    needs = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=2)) if earlier else []
    read = f"nodes.{draw(st.sampled_from(needs))}.output" if needs else "input.n"
    found: dict[str, object] = {**draw(st.sampled_from(_kinds(read))), "needs": needs}
    condition = draw(st.sampled_from(_CONDITIONS))
    result = draw(st.sampled_from(_RESULTS))
    if condition is not None:
        found["when"] = condition
    if result is not None:
        found["result"] = result
    return found


def _kinds(read: str) -> list[dict[str, object]]:
    call = {"url": "https://x.example", "method": "POST"}
    return [
        {"task": {"handler": "x"}, "retry": {"max": 1, "base": "20s"}},
        {"task": {"handler": "x", "input": f"${{{read}}}"}, "timeout": "50s"},
        {"http": {**call, "effect": "provider"}},
        {"http": call},
        {"wait": "30s"},
        {"transform": [f"${{coalesce({read}, 0)}}"]},
        {"transform": f"${{{read}}}"},
    ]
