-- Jobs: runs of the workflows that are job types, whose names begin with `job:`; each has one step, its first.

-- name: page
-- Lists jobs newest first, of ids $2 to $3, with payloads and the newest tries if $10. Where a job stands: as its run once that
-- has ended, else as its step once there is one.
SELECT j.* FROM (
    SELECT r.run_id, r.workflow, r.workflow_version,
           CASE WHEN r.status <> 'running' THEN r.status::text
                WHEN r.pending OR s.status IS NULL THEN 'scheduled'
                WHEN s.ended_at IS NULL THEN s.status::text
                ELSE 'queued' END AS status, -- replayed, and about to be decided again
           r.error, s.error AS step_error, coalesce(s.failures, 0) AS failures, coalesce(s.losses, 0) AS losses,
           s.lane, s.owner, CASE WHEN s.status = 'running' THEN s.worker END AS worker, s.parked_on,
           r.start_key, r.tags, r.priority, r.created_at, r.start_at, s.started_at, r.ended_at,
           CASE WHEN s.status = 'backing_off' THEN (
               SELECT min(t.due_at) FROM timers AS t
                WHERE t.run_id = s.run_id AND t.step = s.step AND NOT t.internal AND t.kind <> 'deadline'
           ) END AS next_try_at,
           CASE WHEN $10::boolean THEN r.input ELSE '' END AS input,
           CASE WHEN $10::boolean THEN r.output END AS output,
           ARRAY(
               SELECT ROW (a.step, a.fence, a.worker, a.outcome, a.error, a.started_at, a.ended_at)
                 FROM attempts AS a
                WHERE $10::boolean AND a.run_id = r.run_id AND a.step = 1
                ORDER BY a.fence DESC LIMIT 100
           ) AS attempts
      FROM runs AS r
      LEFT JOIN steps AS s ON s.run_id = r.run_id AND s.step = 1
     WHERE r.org = $1 AND r.workflow LIKE 'job:%' AND r.run_id BETWEEN $2 AND $3
       AND ($4::text IS NULL OR r.workflow = $4)
       AND ($6::timestamptz IS NULL OR r.created_at >= $6)
       AND ($7::timestamptz IS NULL OR r.created_at < $7)
       AND NOT EXISTS (
               SELECT FROM unnest($8::text[], $9::text[]) AS wanted (key, value)
                WHERE NOT EXISTS (
                          SELECT FROM run_tags AS g
                           WHERE g.run_id = r.run_id AND g.key = wanted.key AND g.value = wanted.value
                      )
           )
) AS j
 WHERE $5::text IS NULL OR j.status = $5
 ORDER BY j.run_id DESC
 LIMIT $11;

-- name: exists
-- Tells whether a run of the org is a job.
SELECT EXISTS (SELECT FROM runs WHERE run_id = $2 AND org = $1 AND workflow LIKE 'job:%');

-- name: list_types
-- Lists the latest version of every job type after a name, without documents.
SELECT w.name, w.version, w.digest, w.published_at
  FROM workflows AS w
 WHERE w.org = $1 AND w.name LIKE 'job:%' AND w.name > $2
   AND NOT EXISTS (
           SELECT FROM workflows AS later
            WHERE later.org = w.org AND later.name = w.name AND later.version > w.version
       )
 ORDER BY w.name
 LIMIT $3;

-- name: latest_types
-- The latest versions of job types with their documents; those that there are.
SELECT w.name, w.version, w.digest, w.document, w.published_at
  FROM unnest($2::text[]) AS u (name)
 CROSS JOIN LATERAL (
     SELECT * FROM workflows WHERE org = $1 AND name = u.name ORDER BY version DESC LIMIT 1
 ) AS w;
