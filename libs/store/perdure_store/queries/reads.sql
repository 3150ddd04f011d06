-- What is read for people and programs outside, never for a decision. Each org sees its own rows.
-- Every query on a partitioned table names a run id or bounds of run ids, so that months are pruned.

-- name: run_snapshots
-- Reads runs that are past a revision, each with one scope's steps as of one snapshot; their payloads if wanted.
-- Each inner query names the run ids again, since only a parameter prunes months while planning.
SELECT r.run_id, r.org, r.workflow, r.workflow_version, r.status::text AS status, r.input, r.output,
       r.error, r.start_key, r.tags, r.priority, r.created_at, r.ended_at, r.deadline_at, r.start_at,
       CASE WHEN NOT r.pending THEN coalesce(r.begun_at, r.created_at) END AS begun_at, r.exclusive_key,
       (SELECT k.holder FROM exclusive_waiters AS w JOIN exclusive_keys AS k ON k.org = w.org AND k.key = w.key
         WHERE w.run_id = r.run_id) AS waits_for, r.revision, r.traceparent,
       r.paused, r.ending::text AS ending, r.uncompensated,
       r.parent_run, r.parent_step, r.awaited_children,
       ARRAY(
           SELECT ROW (
               s.step, s.node, s.scope, s.kind, s.status::text, s.lane, s.owner, s.failures, s.losses,
               s.fence, CASE WHEN s.status = 'running' THEN s.worker END,
               CASE WHEN $4::boolean THEN s.input END, CASE WHEN $4::boolean THEN s.output END,
               s.error, s.created_at, s.started_at, s.ended_at,
               (SELECT min(t.due_at) FROM timers AS t
                 WHERE t.run_id = s.run_id AND t.step = s.step AND NOT t.internal AND t.kind <> 'deadline'),
               (SELECT t.due_at FROM timers AS t
                 WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'deadline'),
               (SELECT c.child_run FROM children AS c
                 WHERE c.run_id = s.run_id AND c.step = s.step AND c.run_id = ANY ($2::uuid[])),
               b.generation, b.total, b.begun, b.ended, b.failed, w.name, w.correlation_key,
               s.parked_on, s.compensates
           )
             FROM steps AS s
             LEFT JOIN blocks AS b ON b.run_id = s.run_id AND b.step = s.step AND b.run_id = ANY ($2::uuid[])
             LEFT JOIN signal_waits AS w ON w.run_id = s.run_id AND w.step = s.step
            WHERE s.run_id = r.run_id AND s.run_id = ANY ($2::uuid[]) AND s.scope = $5
            ORDER BY s.step
       ) AS steps,
       ARRAY(
           SELECT ROW (a.step, a.fence, a.worker, a.outcome, a.error, a.started_at, a.ended_at)
             FROM steps AS s
             JOIN attempts AS a ON a.run_id = s.run_id AND a.step = s.step AND a.run_id = ANY ($2::uuid[])
            WHERE s.run_id = r.run_id AND s.run_id = ANY ($2::uuid[]) AND s.scope = $5
            ORDER BY a.step, a.fence
       ) AS attempts,
       ARRAY(
           SELECT ROW (e.key, e.step, e.kind, e.status::text, e.calls, e.begun_at, e.settled_at)
             FROM effects AS e
             JOIN steps AS s ON s.run_id = e.run_id AND s.step = e.step AND s.run_id = ANY ($2::uuid[])
            WHERE e.run_id = r.run_id AND e.run_id = ANY ($2::uuid[]) AND s.scope = $5
            ORDER BY e.begun_at, e.key
       ) AS effects,
       ARRAY(
           SELECT ROW (n.publish, s.node, CASE WHEN $4::boolean THEN s.output END, s.ended_at)
             FROM workflow_nodes AS n
             JOIN steps AS s ON s.node = n.node AND s.scope = '' AND s.status = 'completed'
            WHERE n.workflow_id = r.workflow_id AND n.publish IS NOT NULL
              AND s.run_id = r.run_id AND s.run_id = ANY ($2::uuid[])
            ORDER BY n.publish
       ) AS published
  FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS wanted (org, run_id, revision)
  JOIN runs AS r ON r.run_id = wanted.run_id AND r.org = wanted.org AND r.revision > wanted.revision
 WHERE r.run_id = ANY ($2::uuid[]);

-- name: runs_past
-- Which watched runs, of any org, are past the revision that is known of them.
SELECT org, run_id FROM runs_past($1, $2, $3);

-- name: published
-- Reads what a run has published under a name: no row if no node of it would, a null output if none has so far.
SELECT s.output
  FROM runs AS r
  JOIN workflow_nodes AS n ON n.workflow_id = r.workflow_id AND n.publish = $3
  LEFT JOIN steps AS s ON s.run_id = $2 AND s.scope = '' AND s.node = n.node AND s.status = 'completed'
 WHERE r.run_id = $2 AND r.org = $1;

-- name: run_payload_bytes
-- Sums the sizes of a run's payloads and errors, those of one scope's steps and their attempts included.
SELECT (
           SELECT coalesce(sum(octet_length(input) + coalesce(octet_length(output), 0)), 0)
             FROM runs WHERE run_id = $1
       ) + (
           SELECT coalesce(sum(coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0)
                               + coalesce(octet_length(error), 0)), 0)
             FROM steps WHERE run_id = $1 AND scope = $2
       ) + (
           SELECT coalesce(sum(octet_length(a.error)), 0)
             FROM steps AS s JOIN attempts AS a ON a.run_id = s.run_id AND a.step = s.step
            WHERE s.run_id = $1 AND s.scope = $2
       );

-- name: list_scopes
-- Lists the scopes of a step's newest try with places from $4 on, in their order; one that never ended is cancelled
-- once its step has ended.
SELECT c.scope AS path, c.index, c.item, c.carry, c.output, c.error,
       CASE WHEN c.status IN ('pending', 'running') AND s.ended_at IS NOT NULL THEN 'cancelled'
            ELSE c.status::text END AS status
  FROM runs AS r
  JOIN steps AS s ON s.run_id = r.run_id AND s.step = $3
  JOIN blocks AS b ON b.run_id = s.run_id AND b.step = s.step
 CROSS JOIN generate_series($4::integer, LEAST(b.made, $4::integer + $5::integer) - 1) AS places (index)
  JOIN scopes AS c ON c.run_id = r.run_id AND c.generation = b.generation
   AND c.scope = CASE WHEN s.scope = '' THEN '' ELSE s.scope || '.' END || s.node || '[' || places.index || ']'
 WHERE r.org = $1 AND r.run_id = $2
 ORDER BY c.index;

-- name: run_exists
-- Tells whether the org has a run.
SELECT EXISTS (SELECT FROM runs WHERE run_id = $2 AND org = $1);

-- name: list_runs
-- Lists runs newest first below a run id; the bounds prune months, the instants decide.
SELECT r.run_id, r.org, r.workflow, r.workflow_version, r.status::text AS status, r.error, r.start_key,
       r.tags, r.priority, r.created_at, r.ended_at, r.deadline_at, r.start_at,
       CASE WHEN NOT r.pending THEN coalesce(r.begun_at, r.created_at) END AS begun_at, r.exclusive_key,
       (SELECT k.holder FROM exclusive_waiters AS w JOIN exclusive_keys AS k ON k.org = w.org AND k.key = w.key
         WHERE w.run_id = r.run_id) AS waits_for, r.revision, r.traceparent,
       r.paused, r.ending::text AS ending, r.uncompensated, r.parent_run, r.parent_step,
       r.awaited_children
  FROM runs AS r
 WHERE r.org = $1
   AND r.run_id < LEAST($2::uuid, uuid7_floor($6::timestamptz))
   AND r.run_id >= coalesce(uuid7_floor($5::timestamptz), '00000000-0000-0000-0000-000000000000')
   AND ($3::text IS NULL OR r.workflow = $3)
   AND ($4::run_status IS NULL OR r.status = $4)
   AND ($7::timestamptz IS NULL OR r.created_at >= $7)
   AND ($8::timestamptz IS NULL OR r.created_at < $8)
   AND ($12::uuid IS NULL OR (r.parent_run = $12 AND r.run_id >= $13))
   AND ($14::boolean IS NULL OR r.paused = $14)
   AND ($15::boolean IS NULL OR (r.status = 'running' AND r.ending IS NOT NULL) = $15)
   AND (cardinality($9::text[]) = 0 OR r.run_id IN (
           SELECT g.run_id FROM run_tags AS g WHERE g.org = $1 AND g.key = ($9)[1] AND g.value = ($10::text[])[1]
       ))
   AND NOT EXISTS (
           SELECT FROM unnest($9::text[], $10::text[]) AS wanted (key, value)
            WHERE NOT EXISTS (
                      SELECT FROM run_tags AS g
                       WHERE g.run_id = r.run_id AND g.key = wanted.key AND g.value = wanted.value
                  )
       )
 ORDER BY r.run_id DESC
 LIMIT $11;

-- name: run_history
-- Reads a run's history lines after a number, oldest first.
SELECT h.seq, h.at, h.kind, h.step, s.node, s.scope, h.fence, h.details
  FROM history AS h
  LEFT JOIN steps AS s ON s.run_id = h.run_id AND s.step = h.step
 WHERE h.run_id = $1 AND h.seq > $2
 ORDER BY h.seq
 LIMIT $3;

-- name: get_workflow
-- Reads one version of a workflow with its document; version 0 is the latest.
SELECT name, version, digest, document, published_at
  FROM workflows
 WHERE org = $1 AND name = $2 AND ($3::integer = 0 OR version = $3)
 ORDER BY version DESC
 LIMIT 1;

-- name: list_latest_workflows
-- Lists the latest version of every name after a name, without documents.
SELECT w.name, w.version, w.digest, w.published_at
  FROM workflows AS w
 WHERE w.org = $1 AND w.name > $2
   AND NOT EXISTS (
           SELECT FROM workflows AS later
            WHERE later.org = w.org AND later.name = w.name AND later.version > w.version
       )
 ORDER BY w.name
 LIMIT $3;

-- name: list_workflow_versions
-- Lists the versions of one name below a version, newest first, without documents.
SELECT name, version, digest, published_at
  FROM workflows
 WHERE org = $1 AND name = $2 AND version < $3
 ORDER BY version DESC
 LIMIT $4;

-- name: lanes
-- Lists the lanes that a definition may name.
SELECT lane FROM lanes;

-- name: no_way_forward
-- Finds unfinished steps and runs that nothing will move on (R10).
SELECT run_id, step, status, missing
  FROM no_way_forward
 WHERE org = $1
 LIMIT $2;

-- name: unsettled_effects
-- Finds effects that are open and that no running or coming try will settle, or that stay so for longer than $4.
SELECT e.run_id, e.step, e.key, e.kind, e.status::text AS status, e.begun_at
  FROM effects AS e
  JOIN steps AS s ON s.run_id = e.run_id AND s.step = coalesce(e.waiter, e.step)
 WHERE e.org = $1
   AND e.status IN ('in_flight', 'outcome_unknown', 'needs_review')
   AND (
       e.status = 'needs_review'
       OR (e.status = 'in_flight' AND e.token IS NULL AND NOT (
               s.status = 'running' AND s.fence = e.fence
               AND s.lease_expires_at > clock_timestamp() - $3::interval
           ))
       OR (e.status = 'in_flight' AND e.lease_expires_at < clock_timestamp() - $3::interval)
       OR (e.status = 'outcome_unknown' AND (
               s.status IN ('completed', 'failed', 'skipped', 'cancelled')
               OR e.begun_at < clock_timestamp() - $4::interval
           ))
   )
 ORDER BY e.begun_at
 LIMIT $2;

-- name: work_not_picked
-- Finds outbox rows that have been ready for long, oldest first.
SELECT run_id, step, lane || ':' || owner AS queue, clock_timestamp() - created_at AS age
  FROM outbox
 WHERE org = $1 AND state = 'ready' AND created_at < clock_timestamp() - $3::interval
 ORDER BY outbox_id
 LIMIT $2;

-- name: overdue_timers
-- Finds timers that should have been delivered long ago, latest first; also those put off, which is 5 min at most.
SELECT run_id, step, kind, clock_timestamp() - due_at AS late, tries, failure
  FROM timers
 WHERE org = $1 AND internal = ANY ('{false,true}') AND next_try < (SELECT clock_timestamp() + interval '301 s')
   AND due_at < (SELECT clock_timestamp() - $3::interval)
 ORDER BY due_at
 LIMIT $2;

-- name: parked_on_timers
-- Finds steps that are parked because the timers that they wait for cannot be delivered.
SELECT t.run_id, t.step, t.kind, t.failure
  FROM timers AS t JOIN steps AS s ON s.run_id = t.run_id AND s.step = t.step
 WHERE t.org = $1 AND t.internal = ANY ('{false,true}') AND t.next_try = 'infinity' AND s.parked_on = 'timer'
   AND t.kind IN ('retry', 'wait')
 ORDER BY t.due_at
 LIMIT $2;

-- name: endless_waits
-- Finds open waits for signals that no deadline ends, the oldest first.
SELECT w.run_id, w.step, w.name, w.correlation_key AS key, clock_timestamp() - w.opened_at AS age
  FROM signal_waits AS w
 WHERE w.org = $1
   AND NOT EXISTS (
           SELECT FROM timers AS t WHERE t.run_id = w.run_id AND t.step = w.step AND t.kind = 'deadline'
       )
 ORDER BY w.opened_at
 LIMIT $2;

-- name: month_head_room
-- Tells how long it is until the first month without partitions, at most a year.
SELECT min(wanted AT TIME ZONE 'UTC') - clock_timestamp() AS head_room
  FROM generate_series(
           date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC'),
           date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + interval '1 year',
           interval '1 month'
       ) AS wanted
 WHERE NOT EXISTS (SELECT FROM months AS made WHERE made.month = wanted::date);
