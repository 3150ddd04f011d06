-- name: write_subjects
-- Writes whom runs, as step 0, and steps are about.
INSERT INTO run_subjects (run_id, step, org, subject_hash, purpose)
SELECT u.run_id, u.step, u.org, u.subject_hash, u.purpose FROM :subjects
ON CONFLICT ON CONSTRAINT run_subjects_pkey
DO UPDATE SET subject_hash = excluded.subject_hash, purpose = excluded.purpose

-- name: share_subjects
-- Waits for whoever changes the lists about the subjects of some steps of a locked run, and keeps others from it.
SELECT pg_advisory_xact_lock_shared(one.place)
  FROM (SELECT DISTINCT subject_lock(subject_hash) AS place FROM run_subjects
         WHERE run_id = $1 AND step = ANY ($2::integer[]) ORDER BY place OFFSET 0) AS one

-- name: share_hashes
-- Waits for whoever begins to erase these subjects, and keeps others from it: what is written now is found by them.
SELECT pg_advisory_xact_lock_shared(one.place)
  FROM (SELECT DISTINCT subject_lock(subject_hash) AS place FROM unnest($1::bytea[]) AS u (subject_hash)
         ORDER BY place OFFSET 0) AS one

-- name: lock_subject
-- Waits for every transaction that lets something begin about a subject, and keeps others from it.
SELECT pg_advisory_xact_lock(subject_lock($1))

-- name: load_suppressed
-- Tells of steps whether a list forbids what they do about their subject.
SELECT s.step,
       EXISTS (SELECT FROM suppressions AS p
                WHERE p.org = s.org AND p.subject_hash = s.subject_hash AND p.purpose IN (s.purpose, '*')) AS suppressed
  FROM run_subjects AS s
 WHERE s.run_id = $1 AND s.step = ANY ($2::integer[])

-- name: add
-- Puts a subject on a list; false if it was there.
WITH added AS (
    INSERT INTO suppressions (org, subject_hash, purpose, reason, asked_by, created_at)
    VALUES ($1, $2, $3, $4, $5, clock_timestamp())
    ON CONFLICT ON CONSTRAINT suppressions_pkey DO NOTHING
    RETURNING org
)
SELECT EXISTS (SELECT FROM added)

-- name: remove
-- Takes a subject off a list; false if it was not there.
WITH removed AS (
    DELETE FROM suppressions WHERE org = $1 AND subject_hash = $2 AND purpose = $3 RETURNING org
)
SELECT EXISTS (SELECT FROM removed)

-- name: lists_of
-- Reads the lists that a subject is on.
SELECT purpose, subject_hash, reason, asked_by, created_at FROM suppressions
 WHERE org = $1 AND subject_hash = $2 ORDER BY purpose COLLATE "C"

-- name: list
-- Reads the next entries of an org's lists, of one purpose if it is not empty, after a place.
SELECT purpose, subject_hash, reason, asked_by, created_at FROM suppressions
 WHERE org = $1 AND ($2 = '' OR purpose = $2) AND (subject_hash, purpose) > ($3, $4)
 ORDER BY subject_hash, purpose LIMIT $5
