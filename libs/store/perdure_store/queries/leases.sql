-- Leases that are renewed (protocol p3).

-- name: renew
-- Extends leases whose row is free; answers in order: seconds left (null: not renewed), still held, cancelled.
WITH asked AS (
    SELECT u.org, u.run_id, u.step, u.fence, u.lease_id, u.place
      FROM unnest($1::text[], $2::uuid[], $3::integer[], $4::integer[], $5::uuid[]) WITH ORDINALITY
           AS u (org, run_id, step, fence, lease_id, place)
), held AS (
    SELECT a.place, a.run_id, a.step, s.stopping, s.compensates IS NOT NULL AS compensates
      FROM asked AS a JOIN steps AS s ON s.run_id = a.run_id AND s.step = a.step
     WHERE s.org = a.org AND s.status = 'running' AND s.fence = a.fence AND s.lease_id = a.lease_id
       AND (s.try_expires_at IS NULL OR s.try_expires_at > clock_timestamp())
), locked AS (
    SELECT s.run_id, s.step, l.lease_ms
      FROM asked AS a JOIN steps AS s ON s.run_id = a.run_id AND s.step = a.step JOIN lanes AS l ON l.lane = s.lane
     WHERE s.org = a.org AND s.status = 'running' AND s.fence = a.fence AND s.lease_id = a.lease_id
       AND (s.try_expires_at IS NULL OR s.try_expires_at > clock_timestamp())
     ORDER BY s.run_id, s.step
       FOR UPDATE OF s SKIP LOCKED
), renewed AS (
    UPDATE steps AS s
       SET lease_expires_at = least(clock_timestamp() + locked.lease_ms * interval '1 ms', s.try_expires_at)
      FROM locked WHERE s.run_id = locked.run_id AND s.step = locked.step
    RETURNING s.run_id, s.step, s.lease_expires_at
)
SELECT CASE WHEN held.place IS NOT NULL -- an older lease of a renewed step is lost all the same
            THEN extract(epoch FROM renewed.lease_expires_at - clock_timestamp())::float8 END AS lease_left,
       held.place IS NOT NULL AS held, coalesce(
           r.status <> 'running' OR (r.ending IS NOT NULL AND NOT held.compensates) OR coalesce(held.stopping, false), true
       ) AS closed
  FROM asked AS a
  LEFT JOIN held ON held.place = a.place
  LEFT JOIN renewed ON renewed.run_id = a.run_id AND renewed.step = a.step
  LEFT JOIN runs AS r ON r.run_id = a.run_id
 ORDER BY a.place

-- name: is_held
-- Whether a lease lives, and its step still runs under it.
SELECT EXISTS (
    SELECT FROM steps
     WHERE org = $1 AND run_id = $2 AND step = $3 AND status = 'running' AND fence = $4 AND lease_id = $5
       AND lease_expires_at > clock_timestamp()
)
