-- Exclusive keys (R14, p9). Whoever moves one holds its lock, which is taken before those of start keys and runs.

-- name: lock
-- Locks keys in key order, making those that there are not.
INSERT INTO exclusive_keys AS k (org, key)
SELECT u.org, u.key FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (org, key, place)
 ORDER BY u.place
ON CONFLICT (org, key) DO UPDATE SET holder = k.holder

-- name: queues
-- Who has and wants each key, as the run beside it sees it; a later statement than the lock.
SELECT u.run_id, k.holder, k.told, coalesce(h.status = 'running', false) AS is_open, mine.place IS NOT NULL AS waits,
       (SELECT w.run_id FROM exclusive_waiters AS w
         WHERE w.org = u.org AND w.key = u.key AND w.place < mine.before
         ORDER BY w.place LIMIT 1) AS first,
       ARRAY(SELECT w.run_id FROM exclusive_waiters AS w
              WHERE w.org = u.org AND w.key = u.key AND w.place < mine.before AND NOT w.told
              ORDER BY w.place LIMIT $4) AS untold
  FROM unnest($1::text[], $2::text[], $3::uuid[]) AS u (org, key, run_id)
  LEFT JOIN exclusive_keys AS k ON k.org = u.org AND k.key = u.key
  LEFT JOIN runs AS h ON h.run_id = k.holder
 CROSS JOIN LATERAL (
     SELECT max(w.place) AS place, coalesce(max(w.place), 9223372036854775807) AS before
       FROM exclusive_waiters AS w WHERE w.org = u.org AND w.key = u.key AND w.run_id = u.run_id
 ) AS mine

-- name: give
-- Gives a key to a run, which waits for it no more; who was told to make way before stays told.
WITH place AS (
    DELETE FROM exclusive_waiters WHERE org = $1 AND key = $2 AND run_id = $3 RETURNING told
)
UPDATE exclusive_keys SET holder = $3, told = coalesce((SELECT told FROM place), false)
 WHERE org = $1 AND key = $2

-- name: await
-- Adds a run behind all that wait for a key.
INSERT INTO exclusive_waiters (org, key, run_id) VALUES ($1, $2, $3)

-- name: tell
-- Marks those who have and want a key as told to make way for a run.
WITH waiting AS (
    UPDATE exclusive_waiters SET told = true WHERE org = $1 AND key = $2 AND run_id <> $3 AND NOT told
)
UPDATE exclusive_keys SET told = true WHERE org = $1 AND key = $2 AND holder <> $3

-- name: leave
-- Lets a run that ended wait for a key no more.
DELETE FROM exclusive_waiters WHERE org = $1 AND key = $2 AND run_id = $3

-- name: free
-- Takes a key from a run that ended.
UPDATE exclusive_keys SET holder = NULL, told = false WHERE org = $1 AND key = $2 AND holder = $3

-- name: tidy
-- Deletes keys that nobody has and nobody wants.
DELETE FROM exclusive_keys AS k USING unnest($1::text[], $2::text[]) AS u (org, key)
 WHERE k.org = u.org AND k.key = u.key AND k.holder IS NULL
   AND NOT EXISTS (SELECT FROM exclusive_waiters AS w WHERE w.org = k.org AND w.key = k.key)

-- name: stalled
-- The next $2 runs after $1 that are the first to wait for a key that nobody has any more.
SELECT w.org, w.run_id
  FROM exclusive_waiters AS w
  JOIN exclusive_keys AS k ON k.org = w.org AND k.key = w.key
  LEFT JOIN runs AS h ON h.run_id = k.holder AND h.status = 'running'
 WHERE h.run_id IS NULL AND w.run_id > $1
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = k.holder AND t.kind = 'hand_over')
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = w.run_id AND t.kind = 'begin')
   AND NOT EXISTS (
       SELECT FROM exclusive_waiters AS b WHERE b.org = w.org AND b.key = w.key AND b.place < w.place
   )
 ORDER BY w.run_id LIMIT $2
