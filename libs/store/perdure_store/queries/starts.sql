-- Start keys (protocol p7).

-- name: claim_keys
-- Takes keys in key order, also those whose retention is over; returns the runs whose key was taken now.
INSERT INTO start_keys AS k (org, start_key, run_id, digest, created_at)
SELECT u.org, u.start_key, u.run_id, u.digest, clock_timestamp()
  FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[]) WITH ORDINALITY
       AS u (org, start_key, run_id, digest, place)
 ORDER BY u.place
ON CONFLICT (org, start_key) DO UPDATE
   SET run_id = excluded.run_id, digest = excluded.digest, created_at = excluded.created_at, expires_at = NULL
 WHERE k.expires_at < clock_timestamp()
RETURNING k.run_id

-- name: holders
-- The runs that hold keys.
SELECT k.org, k.start_key, k.run_id, k.digest, coalesce(r.workflow_version, 0) AS workflow_version
  FROM unnest($1::text[], $2::text[]) AS u (org, start_key)
  JOIN start_keys AS k ON k.org = u.org AND k.start_key = u.start_key
  LEFT JOIN runs AS r ON r.run_id = k.run_id

-- name: release
-- Gives back keys that refused starts have claimed.
DELETE FROM start_keys WHERE run_id = ANY ($1::uuid[])
