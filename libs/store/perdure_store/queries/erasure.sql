-- Erasures: what was asked for, and the payloads of runs replaced by markers, some rows at a time.

-- name: create
-- Adds an erasure, unless it exists, and returns whether it was added.
INSERT INTO erasures (erasure_id, org, subject_hash, reason, asked_by, created_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
    ON CONFLICT ON CONSTRAINT erasures_pkey DO NOTHING
RETURNING erasure_id

-- name: send_cursor
-- Adds the event that goes on with an erasure, unless it has sent all or has one: also where a sender was lost.
INSERT INTO timers (org, run_id, kind, internal, due_at, next_try)
SELECT e.org, e.erasure_id, 'erase', true, clock_timestamp(), clock_timestamp()
  FROM erasures AS e
 WHERE e.erasure_id = $1 AND e.org = $2 AND e.all_sent_at IS NULL
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = e.erasure_id)

-- name: is_cursor
-- Tells whether events of this id belong to an erasure of the org.
SELECT EXISTS (SELECT FROM erasures WHERE erasure_id = $1 AND org = $2) AS found

-- name: take_cursor
-- Deletes the event that goes on with an erasure, if it is due, and locks the erasure.
WITH taken AS (
    DELETE FROM timers WHERE timer_id = $1 AND run_id = $2 AND kind = 'erase' AND due_at <= clock_timestamp()
    RETURNING run_id
)
SELECT e.erasure_id FROM erasures AS e JOIN taken ON taken.run_id = e.erasure_id FOR UPDATE OF e

-- name: send_next
-- Sends the next $2 runs about the subject the event that begins their erasure; fewer are the last.
WITH erasure AS (
    SELECT erasure_id, org, subject_hash, cursor FROM erasures WHERE erasure_id = $1
), next AS (
    SELECT DISTINCT s.run_id, s.org
      FROM erasure AS e JOIN run_subjects AS s ON s.org = e.org AND s.subject_hash = e.subject_hash
     WHERE s.run_id > e.cursor
     ORDER BY s.run_id LIMIT $2
), noted AS (
    INSERT INTO erasure_runs (erasure_id, run_id) SELECT $1, run_id FROM next
    ON CONFLICT ON CONSTRAINT erasure_runs_pkey DO NOTHING
    RETURNING run_id
), sent AS (
    INSERT INTO timers (org, run_id, kind, internal, due_at, next_try, details)
    SELECT n.org, n.run_id, 'erase', true, clock_timestamp(), clock_timestamp(), erase_details($1)
      FROM next AS n JOIN noted USING (run_id)
)
UPDATE erasures AS e
   SET cursor = coalesce((SELECT run_id FROM next ORDER BY run_id DESC LIMIT 1), e.cursor),
       all_sent_at = CASE WHEN (SELECT count(*) FROM next) < $2 THEN clock_timestamp() END
 WHERE e.erasure_id = $1
RETURNING e.all_sent_at IS NOT NULL AS all_sent

-- name: send_named_late
-- Sends runs their event that were there when the erasure of a subject was asked for and name it only now.
WITH named AS (
    SELECT DISTINCT e.erasure_id, u.run_id, u.org
      FROM :subjects
      JOIN erasures AS e ON e.org = u.org AND e.subject_hash = u.subject_hash
      JOIN runs AS r ON r.run_id = u.run_id AND r.created_at < e.created_at
), noted AS (
    INSERT INTO erasure_runs (erasure_id, run_id) SELECT erasure_id, run_id FROM named
    ON CONFLICT ON CONSTRAINT erasure_runs_pkey DO NOTHING
    RETURNING erasure_id, run_id
)
INSERT INTO timers (org, run_id, kind, internal, due_at, next_try, details)
SELECT n.org, n.run_id, 'erase', true, clock_timestamp(), clock_timestamp(), erase_details(n.erasure_id)
  FROM named AS n JOIN noted USING (erasure_id, run_id)

-- name: next_scopes
-- The next scopes of a run after a path and a generation.
SELECT scope || ' ' || generation AS place FROM scopes
 WHERE run_id = $1 AND (scope, generation) > ($2::text, $3::integer)
 ORDER BY scope, generation LIMIT $4

-- name: next_children
-- The next runs that a run has started.
SELECT run_id::text AS place FROM runs WHERE parent_run = $1 AND run_id > $2 ORDER BY run_id LIMIT $3

-- name: erase_steps
-- Erases the payloads of steps with numbers after $2 up to $3, of their tries and of the counters on them.
WITH steps AS (
    UPDATE steps SET input = CASE WHEN input IS NOT NULL THEN $4::bytea END,
                     output = CASE WHEN output IS NOT NULL THEN $4::bytea END,
                     error = CASE WHEN error IS NOT NULL THEN $5::bytea END
     WHERE run_id = $1 AND step > $2 AND step <= $3
    RETURNING 1
), counters AS (
    UPDATE blocks SET error = $5::bytea WHERE run_id = $1 AND step > $2 AND step <= $3 AND error IS NOT NULL
), calls AS (
    UPDATE effects SET result = CASE WHEN result IS NOT NULL THEN $4::bytea END, digest = NULL, note = ''
     WHERE run_id = $1 AND step > $2 AND step <= $3 AND token IS NOT NULL
)
SELECT (SELECT count(*) FROM steps) AS steps, erase_tries($1, $2, $3, $5) AS tries

-- name: erase_history
-- Erases what the lines of a run's history tell, after $2 up to $3; that there was a line, and of what kind, stays.
SELECT erase_lines($1, $2, $3, $4) AS history

-- name: erase_scopes
-- Erases the payloads of scopes after one path and generation up to another.
WITH scopes AS (
    UPDATE scopes SET item = CASE WHEN item IS NOT NULL THEN $6::bytea END,
                      carry = CASE WHEN carry IS NOT NULL THEN $6::bytea END,
                      output = CASE WHEN output IS NOT NULL THEN $6::bytea END,
                      error = CASE WHEN error IS NOT NULL THEN $7::bytea END
     WHERE run_id = $1 AND (scope, generation) > ($2::text, $3::integer) AND (scope, generation) <= ($4::text, $5::integer)
    RETURNING 1
)
SELECT (SELECT count(*) FROM scopes) AS scopes

-- name: send_children
-- Sends the runs that a run has started, after $2 up to $3, the event that begins their erasure, once each.
WITH found AS (
    SELECT run_id, org FROM runs WHERE parent_run = $1 AND run_id > $2 AND run_id <= $3
), noted AS (
    INSERT INTO erasure_runs (erasure_id, run_id)
    SELECT $4::uuid, run_id FROM found WHERE $4 <> '00000000-0000-0000-0000-000000000000'::uuid
    ON CONFLICT ON CONSTRAINT erasure_runs_pkey DO NOTHING
    RETURNING run_id
), sent AS (
    INSERT INTO timers (org, run_id, kind, internal, due_at, next_try, details)
    SELECT f.org, f.run_id, 'erase', true, clock_timestamp(), clock_timestamp(), erase_details($4)
      FROM found AS f
     WHERE f.run_id IN (SELECT run_id FROM noted) OR $4 = '00000000-0000-0000-0000-000000000000'::uuid
    RETURNING 1
)
SELECT (SELECT count(*) FROM sent) AS children

-- name: erase_rest
-- Erases what a run was given and what came of it, its tags, signals, subjects and what it was to send.
WITH run AS (
    UPDATE runs SET input = $2::bytea, output = CASE WHEN output IS NOT NULL THEN $2::bytea END,
                    error = CASE WHEN error IS NOT NULL THEN $3::bytea END,
                    tags = $4::bytea, start_key = NULL, callback_secret = NULL,
                    exclusive_key = CASE WHEN EXISTS (
                        SELECT FROM timers AS t WHERE t.run_id = $1 AND t.kind = 'hand_over'
                    ) THEN exclusive_key END
     WHERE run_id = $1
    RETURNING 1
), letters AS (
    UPDATE signals SET data = $2::bytea WHERE run_id = $1 RETURNING 1
), subjects AS (
    DELETE FROM run_subjects WHERE run_id = $1
), letter AS (
    DELETE FROM dead_letters WHERE run_id = $1
), unsent AS (
    DELETE FROM timers WHERE run_id = $1 AND kind = 'emit'
), failures AS (
    UPDATE timers SET failure = NULL WHERE run_id = $1 AND kind <> 'emit' AND failure IS NOT NULL
), reasons AS (
    UPDATE effect_decisions SET reason = '' WHERE run_id = $1
), refused AS (
    UPDATE run_migration_outcomes SET refusals = NULL WHERE run_id = $1 AND refusals IS NOT NULL
)
SELECT (SELECT count(*) FROM run) AS runs, erase_tags($1) AS tags, (SELECT count(*) FROM letters) AS signals

-- name: count
-- Counts the rows of a run that were erased, by kind.
INSERT INTO erasure_counts (erasure_id, run_id, kind, erased)
SELECT $1, $2, kind, erased FROM unnest($3::text[], $4::integer[]) AS u (kind, erased)
ON CONFLICT ON CONSTRAINT erasure_counts_pkey DO UPDATE SET erased = erasure_counts.erased + excluded.erased

-- name: end_run
-- Notes that a run needs no more events of an erasure.
UPDATE erasure_runs SET ended_at = clock_timestamp() WHERE erasure_id = $1 AND run_id = $2 AND ended_at IS NULL

-- name: read
-- Reads an erasure of an org and how many runs it came to.
SELECT e.erasure_id, e.subject_hash, e.reason, e.asked_by, e.created_at, e.all_sent_at,
       (SELECT count(*) FROM erasure_runs AS r WHERE r.erasure_id = e.erasure_id AND r.ended_at IS NULL) AS pending,
       (SELECT count(*) FROM erasure_runs AS r WHERE r.erasure_id = e.erasure_id AND r.ended_at IS NOT NULL) AS erased
  FROM erasures AS e WHERE e.erasure_id = $1 AND e.org = $2

-- name: read_counts
-- Reads what an erasure has removed, by kind.
SELECT kind, sum(erased)::bigint AS erased FROM erasure_counts WHERE erasure_id = $1 GROUP BY kind ORDER BY kind

-- name: list
-- Reads the next erasures of an org, the oldest first.
SELECT erasure_id, subject_hash, reason, asked_by, created_at, all_sent_at, 0::bigint AS pending, 0::bigint AS erased
  FROM erasures WHERE org = $1 AND erasure_id > $2 ORDER BY erasure_id LIMIT $3

-- name: preview
-- Counts what an erasure of a subject would come to now, with the runs that those have started, up to $3 of them.
WITH RECURSIVE found AS (
    SELECT DISTINCT run_id FROM run_subjects WHERE org = $1 AND subject_hash = $2
    UNION
    SELECT r.run_id FROM found AS f JOIN runs AS r ON r.parent_run = f.run_id
), bounded AS (
    SELECT run_id FROM found LIMIT $3
)
SELECT count(*) AS runs, count(*) FILTER (WHERE r.status = 'running') AS unfinished,
       count(*) FILTER (WHERE r.erased) AS erased_before,
       (SELECT count(*) FROM steps AS s JOIN bounded USING (run_id)) AS steps
  FROM bounded JOIN runs AS r USING (run_id)
