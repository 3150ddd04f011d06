"""RunService.WatchRun."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

from perdure_contracts.v1.run_service_pb2 import WatchRunRequest, WatchRunResponse
from perdure_store.reads.rows import RunSnapshot
from perdure_store.reads.runs import read_run

from perdure_ingest.doors import Doors, refuse_oversized, run_not_found
from perdure_ingest.identity import Caller
from perdure_ingest.validation import Check
from perdure_ingest.views.runs import whole_run

END_SPREAD = 0.2
"""Share of a stream's time by which it is shortened at random, so that clients come back spread."""


async def watch_run(
    doors: Doors, caller: Caller, request: WatchRunRequest
) -> AsyncIterator[WatchRunResponse]:
    """Yield the run now and at each change; end when it has ended, or with its time to come back.

    The stream ends by itself before the connection's age can cut it.
    """
    fields = Check()
    run_id = fields.run_id("run_id", request.run_id)
    if request.after_revision < 0:
        fields.add("after_revision", "must not be negative")
    fields.refuse()
    snapshot = await read_run(doors.pool, caller.org, run_id, with_payloads=False)
    if snapshot is None:
        raise run_not_found(run_id)
    known = max(request.after_revision, snapshot.run.revision)
    seconds = doors.watch_seconds * (1.0 - END_SPREAD * random.random())
    ends_at = doors.watcher.now() + seconds
    with doors.watcher.watch(caller.org, run_id, known) as subscription:
        if known > request.after_revision:
            yield _response(snapshot)
        while not _has_ended(snapshot):
            changed = await subscription.next(ends_at - doors.watcher.now())
            if changed is None:
                return
            snapshot = changed
            yield _response(snapshot)


def _response(snapshot: RunSnapshot) -> WatchRunResponse:
    response = WatchRunResponse(run=whole_run(snapshot, with_payloads=False))
    refuse_oversized(response)
    return response


def _has_ended(snapshot: RunSnapshot) -> bool:
    return snapshot.run.ended_at is not None
