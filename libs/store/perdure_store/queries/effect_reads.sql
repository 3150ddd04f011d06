-- Effects as people see them who have to find out what became of them. Nothing here decides anything.

-- name: page
-- Lists the next $9 effects of an org that are not settled, the oldest first.
SELECT e.run_id, r.workflow, r.workflow_version, r.status::text AS run_status, e.key, e.step, s.node, s.scope,
       s.status::text AS step_status, e.kind, e.status::text AS status, e.calls, e.begun_at, e.settled_at, e.note,
       e.begun_at + make_interval(secs => e.keep) AS key_expires_at, e.can_look_up, e.lease_expires_at
  FROM effects AS e
  JOIN runs AS r ON r.run_id = e.run_id
  JOIN steps AS s ON s.run_id = e.run_id AND s.step = coalesce(e.waiter, e.step)
 WHERE e.org = $1
   AND e.status IN ('in_flight', 'outcome_unknown', 'needs_review')
   AND ($2::uuid IS NULL OR e.run_id = $2)
   AND ($3::text IS NULL OR e.status = $3::effect_status)
   AND ($4::text IS NULL OR e.kind = $4)
   AND ($5::interval IS NULL OR e.begun_at <= clock_timestamp() - $5)
   AND (e.begun_at, e.run_id, e.key) > ($6::timestamptz, $7::uuid, $8::text)
 ORDER BY e.begun_at, e.run_id, e.key
 LIMIT $9

-- name: one
-- Reads an effect of a run, with its result.
SELECT e.run_id, r.workflow, r.workflow_version, r.status::text AS run_status, e.key, e.step, s.node, s.scope,
       s.status::text AS step_status, e.kind, e.status::text AS status, e.calls, e.begun_at, e.settled_at, e.note,
       e.begun_at + make_interval(secs => e.keep) AS key_expires_at, e.can_look_up, e.lease_expires_at, e.result
  FROM effects AS e
  JOIN runs AS r ON r.run_id = e.run_id
  JOIN steps AS s ON s.run_id = e.run_id AND s.step = coalesce(e.waiter, e.step)
 WHERE e.org = $1 AND e.run_id = $2 AND e.key = $3

-- name: decisions
-- Reads what people decided about an effect, oldest first.
SELECT decided_at, decision, actor, reason
  FROM effect_decisions
 WHERE org = $1 AND run_id = $2 AND key = $3
 ORDER BY decided_at

-- name: run_exists
-- Tells whether an org has a run.
SELECT EXISTS (SELECT FROM runs WHERE org = $1 AND run_id = $2)
