-- Migrations of runs from one version of their workflow to another.

-- name: create
-- Adds a migration, unless it exists, and returns whether it was added.
INSERT INTO run_migrations (migration_id, org, workflow, from_version, to_version, from_id, plan, chosen, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp())
    ON CONFLICT ON CONSTRAINT run_migrations_pkey DO NOTHING
RETURNING migration_id

-- name: send_cursor
-- Adds the event that goes on with a migration, unless it has ended or has one: also where a sender was lost.
INSERT INTO timers (org, run_id, kind, internal, due_at, next_try)
SELECT m.org, m.migration_id, 'migrate', true, clock_timestamp(), clock_timestamp()
  FROM run_migrations AS m
 WHERE m.migration_id = $1 AND m.org = $2 AND m.ended_at IS NULL
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = m.migration_id)

-- name: take_cursor
-- Deletes the event that goes on with a migration, if it is due, and locks the migration.
WITH taken AS (
    DELETE FROM timers WHERE timer_id = $1 AND run_id = $2 AND kind = 'migrate' AND due_at <= clock_timestamp()
    RETURNING run_id
)
SELECT m.migration_id, m.plan
  FROM run_migrations AS m JOIN taken ON taken.run_id = m.migration_id
   FOR UPDATE OF m

-- name: is_cursor
-- Tells whether events of this id belong to a migration of the org.
SELECT EXISTS (SELECT FROM run_migrations WHERE migration_id = $1 AND org = $2) AS found

-- name: send_next
-- Sends the next $2 runs of a migration the event that moves them, and counts them; fewer are the last.
WITH migration AS (
    SELECT migration_id, org, workflow, from_id, plan, chosen, cursor FROM run_migrations WHERE migration_id = $1
), next AS (
    SELECT r.run_id, r.org, r.generation
      FROM migration AS m JOIN runs AS r ON r.org = m.org AND r.workflow = m.workflow
     WHERE r.status = 'running' AND r.workflow_id = m.from_id AND r.run_id > m.cursor
       AND (m.chosen IS NULL OR r.run_id = ANY (m.chosen))
     ORDER BY r.run_id LIMIT $2
), noted AS (
    INSERT INTO run_migration_outcomes (migration_id, run_id, outcome)
    SELECT $1, run_id, 'pending' FROM next
), sent AS (
    INSERT INTO timers (org, run_id, kind, internal, generation, due_at, next_try, details)
    SELECT n.org, n.run_id, 'migrate', true, n.generation, clock_timestamp(), clock_timestamp(), m.plan
      FROM next AS n, migration AS m
)
UPDATE run_migrations AS m
   SET cursor = coalesce((SELECT run_id FROM next ORDER BY run_id DESC LIMIT 1), m.cursor),
       selected = m.selected + (SELECT count(*) FROM next),
       ended_at = CASE WHEN (SELECT count(*) FROM next) < $2 THEN clock_timestamp() END
 WHERE m.migration_id = $1
RETURNING m.ended_at IS NOT NULL AS ended

-- name: part_names
-- Gives steps names that no node has, so that two may take each other's.
UPDATE steps AS s SET node = '~' || u.node
  FROM :moved_steps
 WHERE s.run_id = u.run_id AND s.step = u.step

-- name: move
-- Writes the new names of steps, the new versions of runs, and what came of migrations.
WITH steps_moved AS (
    UPDATE steps AS s SET node = u.node, taken = string_to_array(u.taken, ' ')
      FROM :moved_steps
     WHERE s.run_id = u.run_id AND s.step = u.step
), runs_moved AS (
    UPDATE runs AS r
       SET workflow_id = u.workflow_id, workflow_version = u.workflow_version, input = u.input
      FROM :moved_runs
     WHERE r.run_id = u.run_id
)
UPDATE run_migration_outcomes AS o
   SET outcome = u.outcome, refusals = u.refusals, decided_at = clock_timestamp()
  FROM :outcomes
 WHERE o.migration_id = u.migration_id AND o.run_id = u.run_id

-- name: read
-- Reads a migration with how many of its runs came to what.
SELECT m.migration_id, m.workflow, m.from_version, m.to_version, m.plan, m.selected, m.created_at, m.ended_at,
       count(*) FILTER (WHERE o.outcome = 'pending') AS pending,
       count(*) FILTER (WHERE o.outcome = 'migrated') AS migrated,
       count(*) FILTER (WHERE o.outcome = 'refused') AS refused,
       count(*) FILTER (WHERE o.outcome = 'ended') AS ended
  FROM run_migrations AS m
  LEFT JOIN run_migration_outcomes AS o USING (migration_id)
 WHERE m.migration_id = $1 AND m.org = $2
 GROUP BY m.migration_id

-- name: outcomes
-- Reads a page of a migration's runs after the run $3.
SELECT o.run_id, o.outcome, o.refusals
  FROM run_migration_outcomes AS o
 WHERE o.migration_id = $1 AND ($2 = '' OR o.outcome = $2) AND o.run_id > $3
 ORDER BY o.run_id LIMIT $4

-- name: candidates
-- Lists the next runs that a migration would move: of the version $2, after the run $3, all or those of $4.
SELECT run_id FROM runs
 WHERE org = $1 AND workflow_id = $2 AND run_id > $3 AND status = 'running'
   AND ($4::uuid[] IS NULL OR run_id = ANY ($4))
 ORDER BY run_id LIMIT $5

-- name: candidate
-- Reads one of them with its input.
SELECT *, (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms FROM runs WHERE run_id = $1
