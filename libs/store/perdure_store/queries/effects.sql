-- The ledger of effects begun by themselves: rarer than steps, so apart from the hot path (protocol p4).

-- name: load
-- Loads effects with their calls.
SELECT e.run_id, e.key, e.step, e.kind, e.status, e.fence, e.calls, e.token, e.digest, e.keep, e.can_look_up, e.lookups,
       e.epoch, e.result, e.note, e.waiter, extract(epoch FROM clock_timestamp() - e.begun_at)::float8 AS age,
       extract(epoch FROM e.lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM unnest($1::uuid[], $2::text[]) AS n (run_id, key)
  JOIN effects AS e ON e.run_id = n.run_id AND e.key = n.key

-- name: load_begun
-- Loads what steps have begun by themselves.
SELECT e.run_id, e.key, e.step, e.kind, e.status, e.fence, e.calls, e.token, e.digest, e.keep, e.can_look_up, e.lookups,
       e.epoch, e.result, e.note, e.waiter, extract(epoch FROM clock_timestamp() - e.begun_at)::float8 AS age,
       extract(epoch FROM e.lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM unnest($1::uuid[], $2::integer[]) AS n (run_id, step)
  JOIN effects AS e ON e.run_id = n.run_id AND e.step = n.step AND e.token IS NOT NULL

-- name: load_epoch
-- Tells of runs whether the database is that of the latest epoch, and whether this was begun while they went on.
SELECT r.run_id, e.epoch, e.system_id = s.system_identifier
       AND (e.timeline = database_timeline() OR (e.lossless AND e.timeline < database_timeline())) AS is_open,
       r.created_at <= e.begun_at AS goes_back
  FROM (SELECT epoch, begun_at, system_id, timeline, lossless FROM epochs ORDER BY epoch DESC LIMIT 1) AS e
 CROSS JOIN pg_control_system() AS s
  JOIN runs AS r ON r.run_id = ANY ($1::uuid[])

-- name: drop_lease_timers
-- Deletes the timers that end leases of effects, but for those that are deleted as delivered.
DELETE FROM timers AS t USING unnest($1::uuid[], $2::bytea[]) AS u (run_id, key)
 WHERE t.run_id = u.run_id AND t.kind = 'effect_lease' AND t.details = u.key AND t.timer_id <> ALL ($3::bigint[])

-- name: write_calls
-- Writes the calls of effects whose rows the batch has written; a lease ends with the call that was in flight.
UPDATE effects AS e
   SET kind = u.kind, token = u.token, digest = nullif(u.digest, ''::bytea), keep = u.keep, can_look_up = u.can_look_up,
       lookups = u.lookups, epoch = u.epoch, result = u.result, note = u.note, waiter = u.waiter,
       lease_expires_at = CASE WHEN u.status <> 'in_flight' THEN NULL
                               WHEN u.lease_for IS NULL THEN e.lease_expires_at
                               ELSE clock_timestamp() + u.lease_for * interval '1 s' END
  FROM :calls
 WHERE e.run_id = u.run_id AND e.key = u.key

-- name: write_kinds
-- Writes the kinds of effects that ride no more.
UPDATE effects AS e SET kind = u.kind FROM unnest($1::uuid[], $2::text[], $3::text[]) AS u (run_id, key, kind)
 WHERE e.run_id = u.run_id AND e.key = u.key

-- name: write_decisions
-- Records what people have decided.
INSERT INTO effect_decisions (run_id, key, decided_at, org, decision, actor, reason)
SELECT u.run_id, u.key, clock_timestamp(), u.org, u.decision, u.actor, u.reason FROM :decisions
