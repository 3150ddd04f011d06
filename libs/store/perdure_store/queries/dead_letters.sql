-- Dead letters: runs that ended failed because a step failed for good.

-- name: put
-- Makes runs dead letters.
INSERT INTO dead_letters (run_id, org, workflow, workflow_version, node, cause, code, error, created_at)
SELECT run_id, org, workflow, workflow_version, node, cause, code, error, clock_timestamp()
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::bytea[])
       AS u (run_id, org, workflow, workflow_version, node, cause, code, error)

-- name: drop
-- Has runs be dead letters no more.
DELETE FROM dead_letters WHERE run_id = ANY ($1::uuid[])

-- name: page
-- Lists the next $5 dead letters of an org below a run id, newest runs first; with $6 only those of jobs.
SELECT run_id, workflow, workflow_version, node, cause, error, created_at
  FROM dead_letters
 WHERE org = $1 AND ($2::text IS NULL OR workflow = $2) AND ($3::text IS NULL OR code = $3) AND run_id < $4
   AND (NOT $6::boolean OR workflow LIKE 'job:%')
 ORDER BY run_id DESC LIMIT $5

-- name: replay_later
-- Sets the event that retries it for each of the first $4 dead letters that match; says how many, of how many seen.
-- Actor $6 and details $7 are for the audit log. With $8 only those of jobs match.
WITH matching AS (
    SELECT run_id
      FROM dead_letters
     WHERE org = $1 AND ($2::text IS NULL OR workflow = $2) AND ($3::text IS NULL OR code = $3)
       AND (NOT $8::boolean OR workflow LIKE 'job:%')
     ORDER BY run_id LIMIT $4::integer + 1
), taken AS (
    SELECT run_id FROM matching ORDER BY run_id LIMIT $4::integer
), replays AS (
    INSERT INTO timers (org, run_id, kind, internal, generation, due_at, next_try, details)
    SELECT r.org, r.run_id, 'replay', true, r.generation, clock_timestamp(), clock_timestamp(), $5::bytea
      FROM taken JOIN runs AS r USING (run_id)
    RETURNING run_id
), told AS (
    INSERT INTO audit_log (org, actor, action, target, details)
    SELECT $1, $6::text, 'dead_letters.replay', coalesce($2::text, ''), $7::bytea WHERE EXISTS (SELECT FROM taken)
)
SELECT (SELECT count(*) FROM replays)::integer AS replayed, (SELECT count(*) FROM matching)::integer AS matched
