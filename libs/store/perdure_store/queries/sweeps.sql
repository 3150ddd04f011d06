-- What stopped moving, found in bounded pages; and the upkeep of partitions and keys. The clock is asked once,
-- in a query of its own: called in a condition it would be asked for each row, and no index could be used.

-- name: expired_leases
-- The next $4 leases that ran out, after ($1, $2, $3), whose holders could renew all of the last $5 seconds.
SELECT s.org, s.run_id, s.step, s.fence, s.lease_id, s.lease_expires_at,
       coalesce(s.lease_expires_at >= s.try_expires_at, false) AS timed_out
  FROM steps AS s JOIN lanes AS l ON l.lane = s.lane
 WHERE s.status = 'running' AND s.lease_expires_at <= (SELECT clock_timestamp())
   AND (s.lease_expires_at, s.run_id, s.step) > ($1::timestamptz, $2::uuid, $3::integer)
   AND (l.lease_ms <= $5::float8 * 1000 OR s.started_at > (SELECT clock_timestamp() - $5::float8 * interval '1 s'))
 ORDER BY s.lease_expires_at, s.run_id, s.step LIMIT $4

-- name: old_runs
-- The next $3 limits that a run has passed, deadlines and ages, after ($1, $2), in the order of their instants.
SELECT org, run_id, passed_at
  FROM (
      (SELECT org, run_id, age_at AS passed_at
         FROM runs
        WHERE status = 'running' AND NOT paused AND ending IS NULL AND age_at <= (SELECT clock_timestamp())
          AND (age_at, run_id) > ($1::timestamptz, $2::uuid)
        ORDER BY age_at, run_id LIMIT $3)
      UNION ALL
      (SELECT org, run_id, deadline_at
         FROM runs
        WHERE status = 'running' AND NOT paused AND ending IS NULL AND deadline_at <= (SELECT clock_timestamp())
          AND (deadline_at, run_id) > ($1::timestamptz, $2::uuid)
        ORDER BY deadline_at, run_id LIMIT $3)
  ) AS passed
 ORDER BY passed_at, run_id LIMIT $3

-- name: unfinished_page
-- The last of the next $2 unfinished runs after $1; null where there are none.
SELECT max(run_id::text)::uuid AS last, count(*) AS runs
  FROM (SELECT run_id FROM runs WHERE status = 'running' AND run_id > $1 ORDER BY run_id LIMIT $2) AS page

-- name: no_way_forward
-- What has no way forward among the runs after $1 up to $2 (R10).
SELECT org, run_id, step, status, missing FROM no_way_forward WHERE run_id > $1 AND run_id <= $2

-- name: ensure_months
-- Makes the partitions of this month and the next two; counts those made now.
SELECT count(*) FILTER (WHERE ensure_month(
           (date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + n * interval '1 month')::date
       )) AS made
  FROM generate_series(0, 2) AS n

-- name: head_room
-- Seconds from now until the end of the last month there are partitions for.
SELECT extract(epoch FROM (max(month) + interval '1 month')::timestamp AT TIME ZONE 'UTC' - clock_timestamp())::float8
  FROM months

-- name: drop_start_keys
-- Deletes at most $1 start keys whose retention is over.
WITH over AS (
    SELECT org, start_key FROM start_keys WHERE expires_at < (SELECT clock_timestamp())
     ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM start_keys AS k USING over WHERE k.org = over.org AND k.start_key = over.start_key RETURNING k.org

-- name: unsettled_effects
-- How many effects were begun and not settled, by status and kind, and the age in seconds of the oldest of each.
SELECT status::text AS status, kind, count(*) AS effects,
       extract(epoch FROM clock_timestamp() - min(begun_at))::float8 AS oldest
  FROM effects WHERE status IN ('in_flight', 'outcome_unknown', 'needs_review') GROUP BY status, kind

-- name: oldest_transaction
-- The age in seconds of the oldest transaction in this database that holds a snapshot; 0 without any.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)), 0)::float8
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
