-- Hand-overs that were decided on remembered runs, proved and written in one statement (design P4).

-- name: write
-- Writes those whose run is still as it was remembered and is held by nobody else, and returns these runs.
-- A run's revision is raised by all that its decisions read, so that it proves them (R1).
WITH proved AS MATERIALIZED (
    SELECT u.*, r.org, r.traceparent, r.next_step, r.next_seq, r.ended_nodes + r.inner_ended + 1 AS ended_rank,
           clock_timestamp() AS now
      FROM :handed
      JOIN runs_:month AS r ON r.run_id = u.run_id AND r.revision = u.before
     WHERE NOT EXISTS ( -- a migration may have put the node that ended before one that was begun already
         SELECT FROM steps_:month AS s
          WHERE s.run_id = u.run_id AND s.scope = '' AND s.generation = 0 AND s.node = u.node
     )
     ORDER BY r.run_id FOR UPDATE OF r SKIP LOCKED
), run_update AS (
    UPDATE runs_:month AS r
       SET revision = r.revision + 1, ended_nodes = r.ended_nodes + 1, next_step = r.next_step + 1,
           next_seq = r.next_seq + 2
      FROM proved AS p WHERE r.run_id = p.run_id
), step_update AS (
    UPDATE steps_:month AS s
       SET status = 'completed', output = p.output, error = NULL, ended_rank = p.ended_rank, ended_at = p.now,
           lease_expires_at = NULL, try_expires_at = NULL
      FROM proved AS p
     WHERE s.run_id = p.run_id AND s.step = p.step
    RETURNING s.run_id, s.step, s.fence, s.lease_id, s.worker, s.started_at, p.now, p.next_step, p.next_seq,
              p.ended_details
), step_insert AS (
    INSERT INTO steps_:month (
        run_id, step, org, node, kind, status, lane, owner, priority, fence, lease_id, lease_expires_at, try_expires_at,
        worker, effect_prefix, input, traceparent, created_at, started_at
    )
    SELECT p.run_id, p.next_step, p.org, p.node, 'task', 'running', p.lane, p.org, p.priority, 1, p.lease_id,
           p.now + p.lease_for * interval '1 s', p.now + p.try_for * interval '1 s', p.worker, p.effect_prefix, p.input,
           p.traceparent, p.now, p.now
      FROM proved AS p
), attempt_insert AS (
    INSERT INTO attempts_:month (run_id, step, fence, lease_id, worker, outcome, next_step, started_at, ended_at)
    SELECT s.run_id, s.step, s.fence, s.lease_id, s.worker, 'completed', s.next_step, coalesce(s.started_at, s.now), s.now
      FROM step_update AS s
), history_insert AS (
    INSERT INTO history_:month (run_id, seq, at, kind, step, fence, details)
    SELECT s.run_id, s.next_seq, s.now, 'step_completed', s.step, s.fence, s.ended_details FROM step_update AS s
    UNION ALL
    SELECT p.run_id, p.next_seq + 1, p.now, 'step_leased', p.next_step, 1, p.begun_details FROM proved AS p
)
SELECT run_id FROM proved
