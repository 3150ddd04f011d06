"""What runs tell each other, as internal events: no event locks two runs (R14)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from perdure_machine.actions import SetTimer
from perdure_machine.decide.draft import Draft
from perdure_machine.node_error import MAX_DETAILS, ErrorClass, decode_error, encode_error
from perdure_machine.payload import cut, object_bytes
from perdure_machine.states import RunStatus, TimerKind
from perdure_machine.view import NodeError, RunState


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended; `output` if it completed, else `error` if it has one."""

    run_id: UUID
    workflow: str
    version: int
    start_key: str
    status: RunStatus
    output: bytes | None
    error: NodeError | None

    def as_error(self, node: str) -> NodeError:
        """Return the child's error as that of its parent's node; the details name the child."""
        inner = self.error or _error_of(self)
        about = {
            "run_id": str(self.run_id),
            "workflow": self.workflow,
            "version": self.version,
            "status": str(self.status),
            "node": inner.node,
        }
        members = {name: json.dumps(value).encode() for name, value in about.items()}
        with_details = object_bytes({**members, "details": inner.details or b"null"})
        fits = len(with_details) <= MAX_DETAILS
        details = with_details if fits else object_bytes(members)
        return NodeError(inner.category, inner.code, inner.message, details, node)


def tell_parent(draft: Draft, ended: RunState) -> None:
    """Leave word of the run's end for the parent that wants to know; output and error as bytes."""
    parent = ended.parent
    if parent is None or not parent.told:
        return
    head = {
        "run_id": str(ended.run_id),
        "workflow": ended.workflow,
        "version": ended.workflow_version,
        "start_key": ended.start_key,
        "status": ended.status,
    }
    members = {"child": json.dumps(head).encode()}
    if ended.status is RunStatus.COMPLETED:
        members["output"] = ended.output or b"null"
    elif ended.error is not None:
        members["error"] = encode_error(ended.error)
    details = object_bytes(members)
    draft.actions.append(
        SetTimer(TimerKind.CHILD_ENDED, parent.step, 0.0, details=details, to=parent.run_id)
    )


def read_child_end(details: bytes) -> ChildEnd:
    """Read what `tell_parent` wrote."""
    head = json.loads(cut(details, ("child",)) or b"{}")
    error = cut(details, ("error",))
    return ChildEnd(
        run_id=UUID(head["run_id"]),
        workflow=head["workflow"],
        version=head["version"],
        start_key=head["start_key"],
        status=RunStatus(head["status"]),
        output=cut(details, ("output",)),
        error=decode_error(error) if error is not None else None,
    )


def ask_to_end(draft: Draft, run_id: UUID, reason: str) -> None:
    """Leave word for another run that it is to be cancelled."""
    details = json.dumps({"reason": reason}).encode()
    draft.actions.append(SetTimer(TimerKind.CANCEL_RUN, None, 0.0, details=details, to=run_id))


def read_reason(details: bytes | None) -> str:
    """Read what `ask_to_end` wrote."""
    return str(json.loads(details or b"{}").get("reason", ""))


def _error_of(end: ChildEnd) -> NodeError:
    return NodeError(
        ErrorClass.PERMANENT,
        f"CHILD_{end.status.upper()}",
        f"the run {end.run_id} of `{end.workflow}` was {end.status}",
    )
