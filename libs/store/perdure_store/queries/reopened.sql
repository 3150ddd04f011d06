-- Failed runs that a retry opens again, and the steps in them that begin again (protocol p11).

-- name: hold_months
-- Keeps months from being closed until the transaction ends; says which are.
SELECT month FROM months WHERE month = ANY ($1::date[]) AND NOT closed ORDER BY month FOR SHARE

-- name: open
-- Opens failed runs again.
UPDATE runs SET status = 'running', ended_at = NULL WHERE run_id = ANY ($1::uuid[]) AND status = 'failed'

-- name: keep_keys
-- Has the start keys of runs last until the runs end again.
UPDATE start_keys AS k SET expires_at = NULL
  FROM (
      SELECT k.org, k.start_key
        FROM unnest($1::text[], $2::text[], $3::uuid[]) AS u (org, start_key, run_id)
        JOIN start_keys AS k ON k.org = u.org AND k.start_key = u.start_key AND k.run_id = u.run_id
       ORDER BY k.org COLLATE "C", k.start_key COLLATE "C" FOR UPDATE OF k
  ) AS held
 WHERE k.org = held.org AND k.start_key = held.start_key

-- name: begin_steps
-- Gives steps that begin again what a new one is given.
UPDATE steps AS s
   SET kind = u.kind, lane = coalesce(u.lane, s.lane), owner = coalesce(u.owner, s.owner), priority = u.priority,
       effect_prefix = coalesce(u.effect_prefix, s.effect_prefix), input = coalesce(u.input, s.input),
       traceparent = coalesce(u.traceparent, s.traceparent)
  FROM :begun
 WHERE s.run_id = u.run_id AND s.step = u.step
