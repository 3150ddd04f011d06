-- Signals, open waits and correlation keys (protocol p6). Keys are locked first; whatever is read of them is read in
-- a later statement, so that it sees what the lock waited for (R1).

-- name: lock_keys
-- Locks keys in their order, making rows that are missing, and returns whose each is.
INSERT INTO correlation_keys AS k (org, correlation_key, touched_at)
SELECT u.org, u.correlation_key, clock_timestamp()
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (org, correlation_key, place)
 ORDER BY u.place
ON CONFLICT (org, correlation_key) DO UPDATE SET touched_at = excluded.touched_at
RETURNING k.org, k.correlation_key, k.run_id

-- name: claim_keys
-- Gives locked keys that are nobody's to a run, with what came by them.
WITH claimed AS (
    UPDATE correlation_keys SET run_id = $3
     WHERE org = $1 AND correlation_key = ANY ($2::text[]) AND run_id IS NULL
    RETURNING correlation_key
)
UPDATE signals AS s SET run_id = $3, seen = true, expires_at = NULL
  FROM claimed AS c
 WHERE s.org = $1 AND s.correlation_key = c.correlation_key AND s.run_id IS NULL AND s.taken_by IS NULL

-- name: inbox
-- Loads a run's unconsumed signals of some names, the oldest first.
SELECT signal_id, name, data, correlation_key, seen
  FROM signals WHERE run_id = $1 AND name = ANY ($2::text[]) AND taken_by IS NULL ORDER BY number

-- name: waits
-- Loads the open waits of runs for names, the older first.
SELECT w.run_id, w.step, w.name, w.correlation_key
  FROM unnest($1::uuid[], $2::text[]) AS u (run_id, name)
  JOIN signal_waits AS w ON w.run_id = u.run_id AND w.name = u.name
 ORDER BY w.step

-- name: known
-- Says which ids of signals that are sent to runs are there already.
SELECT s.run_id, s.signal_id
  FROM unnest($1::uuid[], $2::text[]) AS u (run_id, signal_id)
  JOIN signals AS s ON s.run_id = u.run_id AND s.signal_id = u.signal_id AND s.correlation_key IS NULL

-- name: weights
-- Sums what waits in the inboxes of runs; the smallest signal counts $2 bytes.
SELECT run_id, sum(greatest(octet_length(data), $2::integer))::bigint AS weight
  FROM signals WHERE run_id = ANY ($1::uuid[]) AND taken_by IS NULL GROUP BY run_id

-- name: weights_by_key
-- Sums what waits of signals by keys; the smallest counts $3 bytes.
SELECT s.org, s.correlation_key, sum(greatest(octet_length(s.data), $3::integer))::bigint AS weight
  FROM unnest($1::text[], $2::text[]) AS u (org, correlation_key)
  JOIN signals AS s ON s.org = u.org AND s.correlation_key = u.correlation_key AND s.taken_by IS NULL
 GROUP BY s.org, s.correlation_key

-- name: known_by_key
-- Says which signals by keys are there already, and whose each is.
SELECT s.org, s.correlation_key, s.signal_id, s.run_id
  FROM unnest($1::text[], $2::text[], $3::text[]) AS u (org, correlation_key, signal_id)
  JOIN signals AS s ON s.org = u.org AND s.correlation_key = u.correlation_key AND s.signal_id = u.signal_id

-- name: store
-- Stores signals in the order given; one that is nobody's is given up after $8 seconds.
INSERT INTO signals (org, run_id, correlation_key, signal_id, name, data, seen, received_at, expires_at)
SELECT u.org, u.run_id, u.correlation_key, u.signal_id, u.name, u.data, u.seen, clock.now,
       CASE WHEN u.run_id IS NULL THEN clock.now + $8::float8 * interval '1 s' END
  FROM (SELECT clock_timestamp() AS now) AS clock,
       unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::boolean[])
       WITH ORDINALITY AS u (org, run_id, correlation_key, signal_id, name, data, seen, place)
 ORDER BY u.place

-- name: take
-- Has steps consume signals that nobody has; returns them to be counted.
UPDATE signals AS s SET taken_by = u.step
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::integer[]) AS u (run_id, correlation_key, signal_id, step)
 WHERE s.run_id = u.run_id AND s.signal_id = u.signal_id AND s.correlation_key IS NOT DISTINCT FROM u.correlation_key
   AND s.taken_by IS NULL
RETURNING s.number

-- name: note
-- Marks signals that their run has looked at and no open wait took.
UPDATE signals AS s SET seen = true
  FROM unnest($1::uuid[], $2::text[], $3::text[]) AS u (run_id, correlation_key, signal_id)
 WHERE s.run_id = u.run_id AND s.signal_id = u.signal_id AND s.correlation_key IS NOT DISTINCT FROM u.correlation_key
   AND s.taken_by IS NULL

-- name: mark_runs
-- Marks runs whose end has signals, waits or keys to clear.
UPDATE runs SET has_mail = true WHERE run_id = ANY ($1::uuid[])

-- name: secret
-- The secret that a run makes tokens of callbacks with; null where it has none.
SELECT callback_secret FROM runs WHERE run_id = $1

-- name: keep_secret
-- Gives a run the secret that it made its first tokens with.
UPDATE runs SET callback_secret = $2 WHERE run_id = $1

-- name: close_waits
-- Deletes the waits of steps.
DELETE FROM signal_waits AS w USING unnest($1::uuid[], $2::integer[]) AS u (run_id, step)
 WHERE w.run_id = u.run_id AND w.step = u.step

-- name: open_waits
-- Stores open waits.
INSERT INTO signal_waits (run_id, step, org, name, correlation_key, opened_at)
SELECT u.run_id, u.step, u.org, u.name, u.correlation_key, clock_timestamp()
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[])
       AS u (run_id, step, org, name, correlation_key)

-- name: keys_of
-- The keys of runs.
SELECT org, correlation_key FROM correlation_keys WHERE run_id = ANY ($1::uuid[])

-- name: end_mail
-- Clears what runs that ended hold: their keys, which are locked, and their waits; their signals go after $2 seconds.
WITH freed AS (
    DELETE FROM correlation_keys WHERE run_id = ANY ($1::uuid[])
), closed AS (
    DELETE FROM signal_waits WHERE run_id = ANY ($1::uuid[])
)
UPDATE signals SET expires_at = clock_timestamp() + $2::float8 * interval '1 s' WHERE run_id = ANY ($1::uuid[])

-- name: undelivered
-- The next $3 of runs and names, after ($1, $2), whose runs await what was stored for them $4 seconds ago or earlier.
SELECT DISTINCT s.run_id, s.name, s.org
  FROM signals AS s
  JOIN signal_waits AS w ON w.run_id = s.run_id AND w.name = s.name
       AND (s.correlation_key IS NULL OR w.correlation_key = s.correlation_key)
 WHERE NOT s.seen AND s.taken_by IS NULL AND s.run_id IS NOT NULL AND (s.run_id, s.name) > ($1::uuid, $2::text)
   AND s.received_at <= (SELECT clock_timestamp() - $4::float8 * interval '1 s')
 ORDER BY s.run_id, s.name LIMIT $3

-- name: drop_expired
-- Deletes at most $1 signals whose time is over.
WITH over AS (
    SELECT number FROM signals WHERE expires_at < (SELECT clock_timestamp())
     ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM signals AS s USING over WHERE s.number = over.number RETURNING s.number

-- name: drop_free_keys
-- Deletes at most $1 keys that are nobody's and were touched $2 seconds ago or earlier.
WITH free AS (
    SELECT org, correlation_key FROM correlation_keys
     WHERE run_id IS NULL AND touched_at < (SELECT clock_timestamp() - $2::float8 * interval '1 s')
     ORDER BY touched_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM correlation_keys AS k USING free
 WHERE k.org = free.org AND k.correlation_key = free.correlation_key RETURNING k.org
