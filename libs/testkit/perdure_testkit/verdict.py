"""What must hold of an engine when its runs have ended, whatever happened to it meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from perdure import Client
from perdure_contracts.v1.run_pb2 import Run

from perdure_testkit.place import Place
from perdure_testkit.waiting import ENGINE_PATIENCE, eventually

# Steps of a completed run whose result was not applied exactly once; inline steps have no attempt.
_NOT_ONCE = """
SELECT s.node, s.status::text, count(a.*) FILTER (WHERE a.outcome = 'completed') AS results
  FROM steps AS s LEFT JOIN attempts AS a USING (run_id, step)
 WHERE s.run_id = ANY ($1::uuid[])
 GROUP BY s.run_id, s.step, s.node, s.status, s.lane
HAVING s.status <> 'completed'
    OR count(a.*) FILTER (WHERE a.outcome = 'completed') <> (s.lane IS NOT NULL)::int
"""

_LEFT = """
SELECT 'outbox row' AS what, run_id, step FROM outbox
UNION ALL
SELECT 'timer ' || kind, run_id, step FROM timers
UNION ALL
SELECT 'open wait', w.run_id, w.step FROM signal_waits AS w JOIN runs AS r USING (run_id)
 WHERE r.status <> 'running'
UNION ALL
SELECT 'correlation key ' || k.correlation_key, k.run_id, NULL
  FROM correlation_keys AS k JOIN runs AS r USING (run_id)
 WHERE r.status <> 'running'
UNION ALL
SELECT 'unsettled effect', e.run_id, e.step FROM effects AS e JOIN runs AS r USING (run_id)
 WHERE r.status = 'completed' AND e.status NOT IN ('settled', 'refused')
"""

_STORY = """
SELECT to_jsonb(x)::text AS line FROM (
    SELECT run_id, status, revision FROM runs WHERE run_id = $1
) AS x
UNION ALL
SELECT to_jsonb(x)::text FROM (
    SELECT step, node, status, fence, lease_expires_at - clock_timestamp() AS lease_left,
           worker, failures, losses, convert_from(error, 'UTF8') AS error
      FROM steps WHERE run_id = $1 ORDER BY step
) AS x
UNION ALL
SELECT to_jsonb(x)::text FROM (
    SELECT outbox_id, step, state, entry_id FROM outbox WHERE run_id = $1
) AS x
UNION ALL
SELECT to_jsonb(x)::text FROM (
    SELECT timer_id, step, kind, tries, next_try - clock_timestamp() AS due_in
      FROM timers WHERE run_id = $1
) AS x
UNION ALL
SELECT to_jsonb(x)::text FROM (
    SELECT at, kind, step, fence FROM history WHERE run_id = $1 ORDER BY seq
) AS x
"""


async def assert_applied_once(place: Place, run_ids: Sequence[str]) -> None:
    """Check that every step of these completed runs has exactly one applied result (R6)."""
    rows = await place.fetch(_NOT_ONCE, [UUID(run_id) for run_id in run_ids])
    assert not rows, "not exactly one result: " + "; ".join(str(dict(row)) for row in rows)


async def assert_nothing_left(place: Place, *, within: float = ENGINE_PATIENCE) -> None:
    """Check that ended runs leave no outbox row, timer or open effect, and nothing is stuck (R10).

    What a cancel leaves is cleared by internal events, hence the wait of `within` seconds.
    """

    left: list[str] = []

    async def is_clear() -> bool:
        left[:] = [f"{r['what']} of {r['run_id']}/{r['step']}" for r in await place.fetch(_LEFT)]
        left.extend(await place.database.without_way_forward())
        return not left

    try:
        await eventually(is_clear, within=within)
    except AssertionError:
        raise AssertionError("left behind: " + "; ".join(left)) from None


async def ended(client: Client, place: Place, run_id: str, *, within: float) -> Run:
    """Return a run when it has ended; AssertionError tells its story if it has not in time."""
    try:
        return await client.wait_run(run_id, within)
    except TimeoutError:
        lines = [row["line"] for row in await place.fetch(_STORY, UUID(run_id))]
        raise AssertionError(f"not ended in {within:g} s:\n" + "\n".join(lines)) from None
