"""The connection of a step: which it is, whether it has room, and parking until it is repaired."""

from __future__ import annotations

import json
import re
from uuid import UUID

from perdure_machine.actions import Dequeue, Enqueue, PutConnection, PutStep
from perdure_machine.capacity import Reservation, Tried, Verdict, Wish, cause_of
from perdure_machine.decide.draft import Draft
from perdure_machine.definition.model import CONNECTION_NAME, Node
from perdure_machine.events import Failed, RefusedConnection
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    Scope,
    Template,
    render,
)
from perdure_machine.node_error import ErrorClass
from perdure_machine.replacing import replace
from perdure_machine.states import StepStatus
from perdure_machine.transitions import Move, moved
from perdure_machine.view import NodeError, Parked, StepState, ViewTooNarrow, Wanted


def connection_of(draft: Draft, step: StepState) -> str | None:
    """Return the connection of a step, None for one that uses none. Raises `ViewTooNarrow`.

    What an expression gave was kept when the step began; empty if its node named none then.
    """
    named = draft.node(step).connection
    if not isinstance(named, Template):
        return named
    if step.step not in draft.connections:
        raise ViewTooNarrow(Wanted(connections=frozenset({step.step})))
    return draft.connections[step.step]


def chosen_connection(node: Node, scope: Scope) -> str | None:
    """Return the connection that a node uses as it begins. Raises `ExpressionFailed`."""
    if not isinstance(node.connection, Template):
        return node.connection
    name = json.loads(render(node.connection, scope))
    if isinstance(name, str) and re.fullmatch(CONNECTION_NAME, name):
        return name
    message = f"{json.dumps(name)[:80]} is not the name of a connection"
    raise ExpressionFailed(ExpressionCode.TYPE, message, node.connection.source)


def keep_connection(draft: Draft, step: StepState, connection: str | None) -> None:
    """Keep which connection an expression gave, for as long as the step is there."""
    if connection is not None and isinstance(draft.node(step).connection, Template):
        draft.connections[step.step] = connection
        draft.actions.append(PutConnection(step.step, connection))


def reserved(
    draft: Draft, step: StepState, lease_id: UUID, connection: str, *, chained: bool = False
) -> Reservation:
    """Return what the connection says to the step. Raises `ViewTooNarrow`."""
    found = draft.view.reservations.get((step.step, lease_id))
    if found is None:
        wish = Wish(step.step, lease_id, connection, chained)
        raise ViewTooNarrow(Wanted(capacity=frozenset({wish})))
    return found


def has_place(draft: Draft, step: StepState, lease_id: UUID, connection: str | None) -> bool:
    """Tell whether a new step may be handed to a reporter at once. Raises `ViewTooNarrow`."""
    if connection is None:
        return True
    return reserved(draft, step, lease_id, connection, chained=True).verdict is Verdict.HELD


def generation_of(draft: Draft, cause: str) -> int:
    """Return the generation of a cause, which no repair changes before this is written (p8).

    Raises `ViewTooNarrow`.
    """
    found = draft.view.causes.get(cause)
    if found is None:
        raise ViewTooNarrow(Wanted(causes=frozenset({cause})))
    return found


def refused_by(
    draft: Draft, step: StepState, failed: Failed, used: int
) -> RefusedConnection | None:
    """Return the connection that a failed try needs a person to reconnect, None for none.

    `used` is the generation that the step's own connection had. Raises `ViewTooNarrow`.
    """
    if failed.error.category != ErrorClass.AUTHORISATION:
        return None
    if failed.refused is not None:
        return failed.refused
    own = connection_of(draft, step)
    return RefusedConnection(own, used) if own else None


def park_refused(
    draft: Draft, step: StepState, error: NodeError, refused: RefusedConnection
) -> None:
    """Stop a running step until somebody reconnects the connection that was refused.

    If that was done while it ran, credentials of before were refused, and it is queued again.
    """
    cause = cause_of(refused.name)
    generation = generation_of(draft, cause)
    failed = replace(step, error=error)
    if refused.generation and refused.generation != generation:
        again = draft.put_step(PutStep(moved(failed, Move.RELEASE)))
        draft.actions.append(Enqueue(again.step, connection_of(draft, step)))
        draft.record("step_queued", again)
        return
    parked = Parked(cause, generation, StepStatus.QUEUED)
    stopped = draft.put_step(PutStep(replace(moved(failed, Move.REFUSE), parked=parked)))
    draft.record("step_parked", stopped, why=f"reconnect {refused.name}", code=error.code)


def park_unusable(draft: Draft, step: StepState, found: Reservation) -> None:
    """Stop a queued step whose connection can do nothing until a person acts.

    If somebody did since that was found, it is left alone: it is blocked and comes back.
    """
    cause = cause_of(found.connection)
    generation = generation_of(draft, cause)
    if generation != found.generation:
        return
    draft.actions.append(Dequeue(step.step))
    parked = Parked(cause, generation, step.status)
    stopped = draft.put_step(PutStep(replace(moved(step, Move.PARK), parked=parked)))
    draft.record("step_parked", stopped, why=f"connection {found.connection} {found.why}")


def tried(
    draft: Draft,
    step: StepState,
    category: str | None,
    *,
    refused: RefusedConnection | None = None,
    retry_after: float | None = None,
) -> Tried | None:
    """Return what a try that ended tells of its connection, or of the one that was `refused`.

    None where it used none.
    """
    if refused is not None:
        return Tried(refused.name, category, refused.generation, retry_after, step.lease_id)
    connection = connection_of(draft, step)
    if connection is None:
        return None
    return Tried(connection, category, 0, retry_after, step.lease_id)
