-- Plain beginnings and ends of runs (design P4). What is decided on a run that is not locked is proved by its revision.

-- name: start
-- Writes new runs whose first step is queued; returns the time in milliseconds since 1970.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), begun AS MATERIALIZED (
    SELECT u.* FROM :begun
), run_insert AS (
    INSERT INTO runs_:month (run_id, org, workflow_id, workflow, workflow_version, priority, next_step, next_seq, input,
                             start_key, traceparent, created_at, age_at)
    SELECT b.run_id, b.org, b.workflow_id, b.workflow, b.workflow_version, b.priority, 2, 3, b.input, b.start_key,
           b.traceparent, clock.now, clock.now + b.age * interval '1 s'
      FROM begun AS b, clock
), step_insert AS (
    INSERT INTO steps_:month (run_id, step, org, node, kind, status, lane, owner, priority, effect_prefix, input,
                              traceparent, created_at)
    SELECT b.run_id, 1, b.org, b.node, 'task', 'queued', b.lane, b.org, b.step_priority, b.run_id::text || '/' || b.node,
           b.step_input, b.traceparent, clock.now
      FROM begun AS b, clock
), history_insert AS (
    INSERT INTO history_:month (run_id, seq, at, kind, step, details)
    SELECT b.run_id, line.seq, clock.now, line.kind, line.step, line.details
      FROM clock, begun AS b
     CROSS JOIN LATERAL (
           VALUES (1, 'run_started', NULL::integer, NULL::bytea), (2, 'step_queued', 1, b.details)
     ) AS line (seq, kind, step, details)
), outbox_insert AS (
    INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, traceparent, created_at)
    SELECT b.org, b.run_id, 1, b.lane, b.org, b.slot, b.step_priority, b.job, b.traceparent, clock.now
      FROM begun AS b, clock
)
SELECT (extract(epoch FROM now) * 1000)::bigint FROM clock

-- name: take_up
-- Leases first steps whose run is still as it was remembered and is held by nobody else; returns these runs.
WITH proved AS MATERIALIZED (
    SELECT u.*, r.next_seq, clock_timestamp() AS now
      FROM :taken
      JOIN runs_:month AS r ON r.run_id = u.run_id AND r.revision = u.before
     ORDER BY r.run_id FOR UPDATE OF r SKIP LOCKED
), run_update AS (
    UPDATE runs_:month AS r SET revision = r.revision + 1, next_seq = r.next_seq + 1
      FROM proved AS p WHERE r.run_id = p.run_id
), step_update AS (
    UPDATE steps_:month AS s
       SET status = 'running', fence = 1, lease_id = p.lease_id, worker = p.worker, started_at = p.now,
           lease_expires_at = p.now + p.lease_for * interval '1 s',
           try_expires_at = p.now + p.try_for * interval '1 s'
      FROM proved AS p
     WHERE s.run_id = p.run_id AND s.step = p.step
), outbox_delete AS (
    DELETE FROM outbox AS o USING proved AS p WHERE o.run_id = p.run_id AND o.step = p.step
), history_insert AS (
    INSERT INTO history_:month (run_id, seq, at, kind, step, fence, details)
    SELECT p.run_id, p.next_seq, p.now, 'step_leased', p.step, 1, p.details FROM proved AS p
)
SELECT run_id FROM proved

-- name: end
-- Completes last steps with their runs, where these are still as remembered and held by nobody else; returns the runs.
WITH proved AS MATERIALIZED (
    SELECT u.*, r.org, r.start_key, r.next_seq, r.ended_nodes + r.inner_ended + 1 AS ended_rank,
           clock_timestamp() AS now
      FROM :ended
      JOIN runs_:month AS r ON r.run_id = u.run_id AND r.revision = u.before
     ORDER BY r.run_id FOR UPDATE OF r SKIP LOCKED
), run_update AS (
    UPDATE runs_:month AS r
       SET status = 'completed', revision = r.revision + 1, generation = r.generation + 1,
           ended_nodes = r.ended_nodes + 1, next_seq = r.next_seq + 2, output = p.run_output, ended_at = p.now
      FROM proved AS p WHERE r.run_id = p.run_id
), key_lock AS MATERIALIZED ( -- in key order, as starts claim them (R14)
    SELECT k.org, k.start_key, p.now
      FROM proved AS p
      JOIN start_keys AS k ON k.org = p.org AND k.start_key = p.start_key AND k.run_id = p.run_id
     ORDER BY k.org COLLATE "C", k.start_key COLLATE "C" FOR UPDATE OF k
), key_close AS (
    UPDATE start_keys AS k SET expires_at = l.now + :retention * interval '1 s'
      FROM key_lock AS l
     WHERE k.org = l.org AND k.start_key = l.start_key
), step_update AS (
    UPDATE steps_:month AS s
       SET status = 'completed', output = p.output, error = NULL, ended_rank = p.ended_rank, ended_at = p.now,
           lease_expires_at = NULL, try_expires_at = NULL
      FROM proved AS p
     WHERE s.run_id = p.run_id AND s.step = p.step
    RETURNING s.run_id, s.step, s.fence, s.lease_id, s.worker, s.started_at, p.now, p.next_seq, p.details
), attempt_insert AS (
    INSERT INTO attempts_:month (run_id, step, fence, lease_id, worker, outcome, started_at, ended_at)
    SELECT s.run_id, s.step, s.fence, s.lease_id, s.worker, 'completed', coalesce(s.started_at, s.now), s.now
      FROM step_update AS s
), history_insert AS (
    INSERT INTO history_:month (run_id, seq, at, kind, step, fence, details)
    SELECT s.run_id, s.next_seq, s.now, 'step_completed', s.step, s.fence, s.details FROM step_update AS s
    UNION ALL
    SELECT p.run_id, p.next_seq + 1, p.now, 'run_completed', NULL, NULL, NULL FROM proved AS p
)
SELECT run_id FROM proved

-- name: load_waits
-- Loads, of the timers $1, those that are due and end waits of top scopes, each with its step and its run as they stand.
SELECT t.timer_id, s.step, s.node, s.kind, s.status AS step_status, s.stopping, s.undecided, s.compensates,
       r.run_id, r.org, r.workflow_id, r.workflow, r.workflow_version, r.status, r.revision, r.generation, r.priority,
       r.next_step, r.ended_nodes, r.inner_ended, r.scope_generation, r.next_seq, r.error, r.start_key, r.tags,
       r.traceparent, r.parent_run, r.parent_step, r.parent_told, r.depth, r.open_children, r.awaited_children,
       r.pending, r.paused, r.pauses, r.dead_lettered, r.recounted, r.exclusive_key, r.ending, r.undo_below,
       r.compensations, r.uncompensated, r.erased, NULL::bytea AS output,
       (extract(epoch FROM r.begun_at) * 1000)::bigint AS begun_ms, r.has_mail, r.has_effects
  FROM :due
  JOIN timers AS t ON t.timer_id = u.timer_id
  JOIN runs AS r ON r.run_id = t.run_id AND r.org = t.org
  JOIN steps AS s ON s.run_id = t.run_id AND s.step = t.step
 WHERE t.kind = 'wait' AND t.due_at <= (SELECT clock_timestamp()) AND s.scope = '' AND s.generation = 0

-- name: end_waits
-- Completes last waits with their runs, where these are still as they were read and are held by nobody else and the
-- timer is due; returns the runs.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), proved AS MATERIALIZED (
    SELECT u.*, r.org, r.start_key, r.next_seq, r.ended_nodes + r.inner_ended + 1 AS ended_rank
      FROM :waited
      JOIN timers AS t ON t.timer_id = u.timer_id AND t.due_at <= (SELECT now FROM clock)
      JOIN runs_:month AS r ON r.run_id = u.run_id AND r.revision = u.before
     ORDER BY r.run_id FOR UPDATE OF r SKIP LOCKED
), run_update AS (
    UPDATE runs_:month AS r
       SET status = 'completed', revision = r.revision + 1, generation = r.generation + 1,
           ended_nodes = r.ended_nodes + 1, next_seq = r.next_seq + 2, output = p.run_output, ended_at = clock.now
      FROM proved AS p, clock WHERE r.run_id = p.run_id
), key_lock AS MATERIALIZED ( -- in key order, as starts claim them (R14)
    SELECT k.org, k.start_key
      FROM proved AS p
      JOIN start_keys AS k ON k.org = p.org AND k.start_key = p.start_key AND k.run_id = p.run_id
     ORDER BY k.org COLLATE "C", k.start_key COLLATE "C" FOR UPDATE OF k
), key_close AS (
    UPDATE start_keys AS k SET expires_at = clock.now + :retention * interval '1 s'
      FROM clock, key_lock AS l
     WHERE k.org = l.org AND k.start_key = l.start_key
), step_update AS (
    UPDATE steps_:month AS s
       SET status = 'completed', output = p.output, ended_rank = p.ended_rank, ended_at = clock.now
      FROM proved AS p, clock
     WHERE s.run_id = p.run_id AND s.step = p.step
), timer_delete AS (
    DELETE FROM timers AS t USING proved AS p WHERE t.timer_id = p.timer_id
), history_insert AS (
    INSERT INTO history_:month (run_id, seq, at, kind, step, details)
    SELECT p.run_id, p.next_seq + line.nth, clock.now, line.kind, line.step, line.details
      FROM clock, proved AS p
     CROSS JOIN LATERAL (
           VALUES (0, 'wait_ended', p.step, p.details), (1, 'run_completed', NULL::integer, NULL::bytea)
     ) AS line (nth, kind, step, details)
)
SELECT run_id FROM proved
