-- Causes that steps are parked on. Who raises a generation locks no run; who parks holds the row (p8).

-- name: hold
-- Reads generations so that nobody raises them before this transaction has ended.
SELECT cause, generation FROM causes WHERE org = $1 AND cause = ANY ($2::text[]) ORDER BY cause FOR SHARE

-- name: make
-- Makes the rows of causes that steps are about to be parked on.
INSERT INTO causes (org, cause) SELECT $1, c FROM unnest($2::text[]) AS c ORDER BY c ON CONFLICT DO NOTHING

-- name: raise
-- Raises a cause's generation, so that what was parked before comes back.
INSERT INTO causes AS c (org, cause) VALUES ($1, $2)
    ON CONFLICT ON CONSTRAINT causes_pkey DO UPDATE SET generation = c.generation + 1
RETURNING cause_id, generation

-- name: send_cursor
-- Sends the event that brings back what is parked on older generations of a cause, 500 runs at a time.
INSERT INTO timers (org, run_id, kind, internal, generation, due_at, next_try, details)
SELECT $2, $1, 'cause_gone', true, $3, t.now, t.now, $4 FROM (SELECT clock_timestamp() AS now) AS t

-- name: of_cursor
-- The cause that a timer brings back the steps of, if its id is one.
SELECT cause, generation FROM causes WHERE cause_id = $1 AND org = $2

-- name: take_cursor
-- Takes a due timer of a cause; none where another delivery took it.
DELETE FROM timers WHERE timer_id = $1 AND run_id = $2 AND due_at <= clock_timestamp() RETURNING details, generation

-- name: send_next
-- Sends the next $4 runs after $5, with steps parked on older generations of cause $2, the event to bring them back.
WITH page AS (
    SELECT DISTINCT s.run_id FROM steps AS s
     WHERE s.org = $1 AND s.parked_on = $2 AND s.parked_generation < $3 AND s.run_id > $5
     ORDER BY s.run_id LIMIT $4
), sent AS (
    INSERT INTO timers (org, run_id, kind, internal, generation, due_at, next_try, details)
    SELECT $1, p.run_id, 'cause_gone', true, $3, t.now, t.now, convert_to('0 ' || $2, 'UTF8')
      FROM page AS p CROSS JOIN (SELECT clock_timestamp() AS now) AS t
)
SELECT count(*) AS runs, max(run_id::text)::uuid AS last FROM page

-- name: forgotten
-- Causes with steps parked on older generations that no event brings back.
SELECT DISTINCT c.org, c.cause_id, c.generation
  FROM causes AS c
  JOIN steps AS s ON s.org = c.org AND s.parked_on = c.cause AND s.parked_generation < c.generation
  JOIN runs AS r ON r.run_id = s.run_id AND r.status = 'running'
 WHERE NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id IN (s.run_id, c.cause_id) AND t.kind = 'cause_gone')
 LIMIT $1
