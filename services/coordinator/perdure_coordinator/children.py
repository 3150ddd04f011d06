"""Starts the children that runs ask for, each in a transaction of its own, and tells the parents.

Whoever dies in between leaves the parent's timer, so the next delivery does the rest: the start is
found by its key (protocol p5).
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import asyncpg
from perdure_machine.events import ChildForgone, ChildStarted, TellOfChild
from perdure_machine.replies import ChildUnwanted, ChildWanted, Reply
from perdure_runtime import fail_points
from perdure_runtime.batching import Batcher
from perdure_runtime.tracing import span
from perdure_store.apply.child_starts import answer_parent, forgo_child
from perdure_store.apply.starter import StartOutcome, StartRequest
from perdure_store.pool import acquire

from perdure_coordinator.committers import Committers

TELL_OF_CHILD = fail_points.declare("coordinator.tell_of_child")

Starts = Batcher[StartRequest, StartOutcome]


class Children:
    """Does what the delivery of a START_CHILD timer asks for; `retention` is of start keys."""

    def __init__(
        self, committers: Committers, starts: Starts, spare: asyncpg.Pool, *, retention: float
    ) -> None:
        self._committers = committers
        self._starts = starts
        self._spare = spare
        self._retention = retention

    async def answer(
        self, parent: UUID, org: str, timer_id: int, asked: ChildWanted | ChildUnwanted
    ) -> Reply:
        """Start or forgo the child and tell its parent; return what the parent makes of it.

        Raises what hinders it now: the timer is then still there.
        """
        outcome = await answer_parent(org, asked, self._start, self._forgo)
        async with TELL_OF_CHILD.around():
            return await self._committers.submit(parent, org, TellOfChild(timer_id, outcome))

    async def _start(self, request: StartRequest) -> StartOutcome:
        facts = {"perdure.org": request.org, "perdure.workflow": request.workflow}
        with span("run start", parent=request.traceparent, attributes=facts) as started:
            traceparent = started.traceparent or request.traceparent
            return await self._starts.submit(replace(request, traceparent=traceparent))

    async def _forgo(self, org: str, start_key: str) -> ChildStarted | ChildForgone:
        async with acquire(self._spare) as connection:
            return await forgo_child(connection, org, start_key, retention=self._retention)
