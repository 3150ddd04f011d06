-- Child runs, as rows of the parent that asked for them (protocol p5).

-- name: load
-- Loads the children of some steps.
SELECT c.run_id, c.step, c.workflow, c.version, c.on_parent_end, c.status, c.child_run
  FROM unnest($1::uuid[], $2::integer[]) AS wanted (run_id, step)
  JOIN children AS c ON c.run_id = wanted.run_id AND c.step = wanted.step

-- name: load_leaving
-- Loads the next $2 running children of a run that end because it has ended, or their step has without them.
SELECT c.step, c.workflow, c.version, c.on_parent_end, c.status, c.child_run
  FROM children AS c
  JOIN runs AS r ON r.run_id = c.run_id
  JOIN steps AS s ON s.run_id = c.run_id AND s.step = c.step
 WHERE c.run_id = $1 AND c.status = 'running' AND c.on_parent_end = 'cancel'
   AND (r.status <> 'running' OR s.status IN ('failed', 'skipped', 'cancelled'))
 ORDER BY c.step LIMIT $2

-- name: write
-- Writes children, new or changed; their run is locked.
INSERT INTO children (run_id, step, org, workflow, version, on_parent_end, status, child_run)
SELECT u.run_id, u.step, u.org, u.workflow, u.version, u.on_parent_end, u.status, u.child_run
  FROM :children
ON CONFLICT (run_id, step) DO UPDATE
   SET workflow = excluded.workflow, version = excluded.version, status = excluded.status,
       child_run = excluded.child_run

-- name: forgo
-- Takes the key of a child that is not to be started any more, unless a run has it. No run has the id of zeros.
INSERT INTO start_keys (org, start_key, run_id, digest, created_at, expires_at)
SELECT $1, $2, '00000000-0000-0000-0000-000000000000', sha256(''), clock_timestamp(),
       clock_timestamp() + $3::float8 * interval '1 s'
ON CONFLICT DO NOTHING

-- name: of_key
-- The run that has a key, if any has.
SELECT r.run_id, r.workflow_version
  FROM start_keys AS k JOIN runs AS r ON r.run_id = k.run_id
 WHERE k.org = $1 AND k.start_key = $2
