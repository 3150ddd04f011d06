-- Timers and internal events (protocol p5).

-- name: put_off
-- Moves the next try of timers that failed for a reason: 1 s after the first failure, twice as long after each, 5 min
-- at most. Returns those of steps that have failed $3 times or more.
WITH failed AS (
    SELECT u.timer_id, min(u.failure) AS failure FROM unnest($1::bigint[], $2::text[]) AS u (timer_id, failure) GROUP BY 1
), locked AS (
    SELECT t.timer_id FROM timers AS t WHERE t.timer_id = ANY ($1::bigint[]) ORDER BY t.timer_id FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE timers AS t
       SET tries = t.tries + 1, failure = f.failure,
           next_try = clock_timestamp() + least(300, power(2, least(t.tries, 20))) * interval '1 s'
      FROM locked JOIN failed AS f USING (timer_id)
     WHERE t.timer_id = locked.timer_id
    RETURNING t.timer_id, t.tries, t.step
)
SELECT timer_id FROM moved WHERE step IS NOT NULL AND tries >= $3

-- name: drop_of_runs
-- Deletes timers that runs have set for themselves, by kind.
DELETE FROM timers AS t USING unnest($1::uuid[], $2::text[]) AS u (run_id, kind)
 WHERE t.run_id = u.run_id AND t.kind = u.kind AND t.step IS NULL

-- name: drop_orphans
-- Deletes timers of runs that are no more, or that the org whose run set them does not have; those of migrations hang
-- on the migration itself.
DELETE FROM timers AS t
 WHERE t.timer_id = ANY ($1::bigint[])
   AND NOT EXISTS (SELECT FROM runs AS r WHERE r.run_id = t.run_id AND r.org = t.org)
   AND NOT EXISTS (SELECT FROM run_migrations AS m WHERE m.migration_id = t.run_id)

-- name: soonest
-- The $3 soonest timers due within $2 seconds. $1: internal events.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
SELECT timer_id, org, run_id, extract(epoch FROM next_try - clock.now)::float8 AS remaining,
       extract(epoch FROM clock.now - due_at)::float8 AS late
  FROM timers, clock
 WHERE internal = $1 AND next_try <= (SELECT now + $2::float8 * interval '1 s' FROM clock)
 ORDER BY next_try LIMIT $3

-- name: in_turn
-- Timers due within $2 seconds: the soonest of each of at most $4 orgs after the org $3, which share $5 places evenly.
-- $1: internal events.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, clock_timestamp() + $2::float8 * interval '1 s' AS horizon
), orgs AS (
    SELECT * FROM (SELECT org FROM timers WHERE internal = $1 AND org > $3 ORDER BY org LIMIT 1) AS first
    UNION ALL
    SELECT (SELECT t.org FROM timers AS t WHERE t.internal = $1 AND t.org > o.org ORDER BY t.org LIMIT 1)
      FROM orgs AS o WHERE o.org IS NOT NULL
), soon AS (
    SELECT o.org FROM orgs AS o
     WHERE EXISTS (
         SELECT FROM timers AS t
          WHERE t.internal = $1 AND t.org = o.org AND t.next_try <= (SELECT horizon FROM clock)
     )
     ORDER BY o.org LIMIT $4
)
SELECT t.timer_id, t.org, t.run_id, t.remaining, t.late
  FROM soon
 CROSS JOIN LATERAL (
     SELECT timer_id, org, run_id, extract(epoch FROM next_try - clock.now)::float8 AS remaining,
            extract(epoch FROM clock.now - due_at)::float8 AS late
       FROM timers, clock
      WHERE internal = $1 AND org = soon.org AND next_try <= (SELECT horizon FROM clock)
      ORDER BY next_try LIMIT (SELECT $5::bigint / count(*) FROM soon)
 ) AS t
 ORDER BY t.org, t.remaining
