"""What a parent asks about its child, done in transactions of their own (R14, protocol p5).

A child is started like any run, under a key that its activation alone has. One that is not wanted
any more has its key taken, so that a start still under way elsewhere finds it gone: either there is
a run, and it is told of, or there never will be one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from perdure_machine.events import ChildForgone, ChildRefused, ChildStarted
from perdure_machine.node_error import refusal_error
from perdure_machine.replies import ChildUnwanted, ChildWanted
from perdure_runtime import fail_points
from perdure_runtime.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PerdureError,
)

from perdure_store.apply.starter import StartOutcome, StartRequest
from perdure_store.pool import Connection
from perdure_store.sql import sql
from perdure_store.transaction import transaction

COMMIT_FORGOING = fail_points.declare("store.commit_forgoing")

Start = Callable[[StartRequest], Awaitable[StartOutcome]]
Forgo = Callable[[str, str], Awaitable[ChildStarted | ChildForgone]]
"""Takes an org and a start key."""

_FOR_GOOD = (AlreadyExists, FailedPrecondition, InvalidArgument, NotFound)


async def answer_parent(
    org: str, asked: ChildWanted | ChildUnwanted, start: Start, forgo: Forgo
) -> ChildStarted | ChildRefused | ChildForgone:
    """Do what a parent of `org` asks about its child, and return what came of it.

    Raises what hinders it now and may not later.
    """
    if isinstance(asked, ChildUnwanted):
        return await forgo(org, asked.start_key)
    outcome = await start(_request(asked))
    if isinstance(outcome, _FOR_GOOD):
        return ChildRefused(refusal_error(outcome))
    if isinstance(outcome, PerdureError):
        raise outcome
    return ChildStarted(outcome.run_id, outcome.workflow_version)


async def forgo_child(
    connection: Connection, org: str, start_key: str, *, retention: float
) -> ChildStarted | ChildForgone:
    """See that no run is started under the key any more; tell of the one that was.

    `retention` is how long the key is kept, in seconds.
    """
    async with transaction(connection, COMMIT_FORGOING):
        await connection.execute(sql("children.forgo"), org, start_key, retention)
        # A later statement, so that it sees a run whose start this one waited for (R1).
        row = await connection.fetchrow(sql("children.of_key"), org, start_key)
    return ChildForgone() if row is None else ChildStarted(row["run_id"], row["workflow_version"])


def _request(wanted: ChildWanted) -> StartRequest:
    return StartRequest(
        org=wanted.org,
        workflow=wanted.workflow,
        version=wanted.version,
        input=wanted.input,
        start_key=wanted.start_key,
        tags={},
        priority=wanted.priority,
        traceparent=wanted.traceparent,
        parent=wanted.parent,
        depth=wanted.depth,
    )
