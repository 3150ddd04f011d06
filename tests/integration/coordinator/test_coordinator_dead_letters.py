"""Dead letters replayed by filter over the wire: how many, whether more, and who asked for it."""

from __future__ import annotations

import json

from perdure_contracts.internal.v1.control_service_pb2 import ReplayDeadLettersRequest
from perdure_store.audit import read_audit
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

TASK = "name: w\nnodes: {a: {task: {handler: h}}}"


async def test_a_replay_tells_how_many_and_whether_more_and_is_audited(
    calls: Calls, database: Database
) -> None:
    await calls.publish(TASK)
    for _ in range(3):
        grant = await calls.grant(await calls.start("w"))
        await calls.fail(grant.lease, "permanent")
    request = ReplayDeadLettersRequest(
        org=calls.org, code="BROKEN", limit=2, reason="mended", asked_by="ann"
    )
    answer = await calls.control.ReplayDeadLetters(request, timeout=10)
    assert (answer.replayed, answer.more) == (2, True)
    request.code = "OTHER"
    assert (await calls.control.ReplayDeadLetters(request, timeout=10)).replayed == 0
    (line,) = await read_audit(await database.connect(), calls.org, limit=9)
    assert (line.actor, line.action, line.target) == ("ann", "dead_letters.replay", "")
    assert json.loads(line.details) == {"code": "BROKEN", "limit": 2, "reason": "mended"}
