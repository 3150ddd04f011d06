"""RunService.WatchRun."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from uuid import UUID

from perdure_contracts.v1.run_service_pb2 import WatchRunRequest, WatchRunResponse
from perdure_runtime.errors import FieldViolation, InvalidArgument
from perdure_runtime.gate.identity import Caller
from perdure_store.reads.rows import RunSnapshot
from perdure_store.reads.runs import read_published, read_run

from perdure_ingest import limits
from perdure_ingest.doors import Doors, refuse_oversized, run_not_found
from perdure_ingest.validation import Check
from perdure_ingest.views.runs import whole_run

END_SPREAD = 0.2
"""Share of a stream's time by which it is shortened at random, so that clients come back spread."""


async def watch_run(
    doors: Doors, caller: Caller, request: WatchRunRequest
) -> AsyncIterator[WatchRunResponse]:
    """Yield the run now and at each change, until it has ended or has published what is asked for.

    The stream ends by itself before the connection's age can cut it, with its time to come back.
    """
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    if request.after_revision < 0:
        fields.add("after_revision", "must not be negative")
    until = fields.text("until", request.until, longest=limits.MAX_NAME)
    fields.refuse()
    snapshot = await read_run(doors.pool, caller.org, run_id, with_payloads=False)
    if snapshot is None:
        raise run_not_found(run_id)
    if until:
        await _refuse_unknown(doors, caller, run_id, until)
    known = max(request.after_revision, snapshot.run.revision)
    seconds = doors.watch_seconds * (1.0 - END_SPREAD * random.random())
    ends_at = doors.watcher.now() + seconds
    with doors.watcher.watch(caller.org, run_id, known) as subscription:
        if known > request.after_revision or _is_there(snapshot, until):
            yield await _response(doors, snapshot, until)
        while not _is_over(snapshot, until):
            changed = await subscription.next(ends_at - doors.watcher.now())
            if changed is None:
                return
            snapshot = changed
            yield await _response(doors, snapshot, until)


async def _response(doors: Doors, snapshot: RunSnapshot, until: str) -> WatchRunResponse:
    run = whole_run(snapshot, with_payloads=False)
    for published in run.published:
        if published.name == until:
            owner = snapshot.run
            _, value = await read_published(doors.pool, owner.org, owner.run_id, until)
            published.value = value or b""
    response = WatchRunResponse(run=run)
    refuse_oversized(response)
    return response


async def _refuse_unknown(doors: Doors, caller: Caller, run_id: UUID, until: str) -> None:
    is_known, _ = await read_published(doors.pool, caller.org, run_id, until)
    if not is_known:
        problem = f"no node of the run publishes under the name `{until}`"
        raise InvalidArgument(problem, violations=[FieldViolation("until", problem)])


def _is_over(snapshot: RunSnapshot, until: str) -> bool:
    return snapshot.run.ended_at is not None or _is_there(snapshot, until)


def _is_there(snapshot: RunSnapshot, until: str) -> bool:
    return any(published.name == until for published in snapshot.published)
