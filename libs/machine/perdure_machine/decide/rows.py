"""The rows of a `for_each`: what the output that stands for them refers to."""

from __future__ import annotations

import json
import re

from perdure_machine.decide.draft import Draft
from perdure_machine.expressions import ExpressionCode, ExpressionFailed
from perdure_machine.node_error import encode_error
from perdure_machine.payload import cut, object_bytes, with_members_added
from perdure_machine.places import inner_scopes
from perdure_machine.states import ScopeStatus
from perdure_machine.view import BlockState, RowsOf, ScopeState, ViewTooNarrow, Wanted

MAX_ROWS = 1_000
"""Most rows that an expression may be given; more are for another `for_each` (language.md)."""

ROWS = "rows"
"""The member of the output that stands for the rows themselves."""

_REF = re.compile(r'"([0-9a-f-]{36})/([0-9]+)/([0-9]+)/([^"/]+)"')
_ENDED = {ScopeStatus.COMPLETED: "completed", ScopeStatus.FAILED: "failed"}


def reference(draft: Draft, block: BlockState) -> bytes:
    """Return the output that stands for the rows of a step: never the rows themselves."""
    step = draft.steps[block.step]
    path = inner_scopes(step.scope, step.node).removesuffix("[")
    ref = f"{draft.run.run_id}/{block.step}/{block.generation}/{path}"
    members = {"ref": ref, "count": block.made, "failed": block.failed}
    return json.dumps(members, separators=(",", ":")).encode()


def referred(draft: Draft, output: bytes) -> RowsOf | None:
    """Return the rows of this run that an output stands for, or None if it stands for none."""
    ref = _REF.fullmatch((cut(output, ("ref",)) or b"").decode("utf-8", "replace"))
    count = cut(output, ("count",))
    if ref is None or count is None or ref[1] != str(draft.run.run_id):
        return None
    return RowsOf(int(ref[2]), ref[4], int(ref[3]), 0, int(count))


def with_rows(draft: Draft, output: bytes, source: str) -> bytes:
    """Return an output with the rows that it stands for among its members.

    Raises `ExpressionFailed` for more than `MAX_ROWS`, `ViewTooNarrow` where they are not loaded.
    """
    rows = referred(draft, output)
    if rows is None:
        return output
    if rows.count > MAX_ROWS:
        message = f"it has {rows.count} rows; an expression is given at most {MAX_ROWS}"
        raise ExpressionFailed(ExpressionCode.TOO_MANY_ROWS, message, source)
    listed = b"[" + b",".join(row_bytes(draft, rows)) + b"]"
    return with_members_added(output, [(ROWS, listed)])


def row_bytes(draft: Draft, wanted: RowsOf) -> list[bytes]:
    """Return rows as JSON, in the order of their places. Raises `ViewTooNarrow`."""
    loaded = draft.view.rows.get(wanted, () if _is_new(draft, wanted) else None)
    if loaded is None:
        raise ViewTooNarrow(Wanted(rows=frozenset({wanted})))
    found = {scope.index: scope for scope in loaded}
    changed = (scope for scope in draft.scopes.values() if _is_among(scope, wanted))
    found |= {scope.index: scope for scope in changed}
    return [_row(scope) for _, scope in sorted(found.items())]


def _is_new(draft: Draft, wanted: RowsOf) -> bool:
    """Tell whether the step was made by this very decision, so that nothing of it is stored."""
    return wanted.step >= draft.view.run.next_step


def _is_among(scope: ScopeState, wanted: RowsOf) -> bool:
    """Tell whether a scope is one of the rows, and known with what it ended with."""
    named = (scope.owner, scope.generation, scope.scope)
    is_one = named == (wanted.step, wanted.generation, f"{wanted.path}[{scope.index}]")
    is_whole = scope.status is not ScopeStatus.COMPLETED or scope.output is not None
    return is_one and is_whole and 0 <= scope.index - wanted.start < wanted.count


def _row(scope: ScopeState) -> bytes:
    members = {
        "index": str(scope.index).encode(),
        "status": json.dumps(_ENDED.get(scope.status, "cancelled")).encode(),
    }
    if scope.output is not None:
        members["output"] = scope.output
    if scope.error is not None:
        members["error"] = encode_error(scope.error)
    return object_bytes(members)
