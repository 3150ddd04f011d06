-- The hot path: lock, load, write (protocol p1). Lock first; the loads are later statements, so that they
-- see what the lock waited for (R1).

-- name: lock_free_runs
-- Locks the runs nobody else holds, in id order, and returns them as they are under the lock.
SELECT run_id, org, workflow_id, workflow, workflow_version, status, revision, generation, priority, next_step,
       ended_nodes, inner_ended, scope_generation, next_seq, error, start_key, tags, traceparent, parent_run,
       parent_step, parent_told, depth, open_children, awaited_children, pending, paused, pauses, dead_lettered,
       recounted, exclusive_key, ending, undo_below, compensations, uncompensated, erased,
       CASE WHEN ending = 'completed' THEN output END AS output,
       (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms, has_mail, has_effects
  FROM runs WHERE run_id = ANY ($1::uuid[]) ORDER BY run_id FOR UPDATE SKIP LOCKED

-- name: lock_runs
-- Locks the runs in id order, waiting for whoever holds them.
SELECT run_id, org, workflow_id, workflow, workflow_version, status, revision, generation, priority, next_step,
       ended_nodes, inner_ended, scope_generation, next_seq, error, start_key, tags, traceparent, parent_run,
       parent_step, parent_told, depth, open_children, awaited_children, pending, paused, pauses, dead_lettered,
       recounted, exclusive_key, ending, undo_below, compensations, uncompensated, erased,
       CASE WHEN ending = 'completed' THEN output END AS output,
       (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms, has_mail, has_effects
  FROM runs WHERE run_id = ANY ($1::uuid[]) ORDER BY run_id FOR UPDATE

-- name: load_steps
-- Loads the steps that events name, with their effect, and around those that may end, what a decision may read.
WITH named AS (
    SELECT s.run_id, s.step, s.scope, s.generation, s.node, n.with_input, n.with_near, n.workflow_id
      FROM unnest($1::uuid[], $2::integer[], $3::boolean[], $4::boolean[], $5::bigint[])
           AS n (run_id, step, with_input, with_near, workflow_id)
      JOIN steps AS s ON s.run_id = n.run_id AND s.step = n.step
), near AS (
    SELECT n.run_id, n.scope, n.generation, w.node, bool_or(w.node = ANY (p.outputs)) AS with_output
      FROM named AS n
      JOIN workflow_nodes AS p ON p.workflow_id = n.workflow_id AND p.node = n.node
     CROSS JOIN LATERAL (SELECT unnest(p.steps) AS node UNION SELECT unnest(p.outputs)) AS w
     WHERE n.with_near
     GROUP BY n.run_id, n.scope, n.generation, w.node
), wanted AS (
    SELECT run_id, step, bool_or(with_input) AS with_input, bool_or(with_output) AS with_output, bool_or(named) AS named
      FROM (
          SELECT run_id, step, with_input, false AS with_output, true AS named FROM named
          UNION ALL
          SELECT s.run_id, s.step, false, near.with_output, false
            FROM near JOIN steps AS s USING (run_id, scope, generation, node)
      ) AS parts
     GROUP BY run_id, step
)
SELECT s.run_id, s.step, s.scope, s.generation, s.node, s.kind, s.status, s.lane, s.owner, s.priority, s.fence,
       s.lease_id, s.worker, s.failures, s.losses, s.effect_prefix, s.error, s.traceparent, s.taken,
       s.ended_rank, s.stopping, s.undecided, s.compensable, s.compensates, s.parked_on, s.parked_generation, s.parked_from,
       CASE WHEN w.with_input THEN s.input END AS input,
       CASE WHEN w.with_output THEN s.output END AS output,
       extract(epoch FROM s.lease_expires_at - clock_timestamp())::float8 AS lease_left,
       e.key AS effect_key, e.step AS effect_step, e.kind AS effect_kind, e.status AS effect_status, e.fence AS effect_fence,
       e.calls AS effect_calls, extract(epoch FROM clock_timestamp() - e.begun_at)::float8 AS effect_age
  FROM wanted AS w
  JOIN steps AS s ON s.run_id = w.run_id AND s.step = w.step
  LEFT JOIN effects AS e ON w.named AND e.run_id = s.run_id AND e.key = s.effect_prefix || '/request'

-- name: load_nodes
-- Loads the steps of some nodes, some with their outputs: what a decision asked for in addition.
SELECT run_id, step, scope, generation, node, kind, status, lane, owner, priority, fence, lease_id, worker, failures,
       losses, effect_prefix, error, traceparent, taken, ended_rank, stopping, undecided, compensable, compensates, parked_on,
       parked_generation, parked_from, NULL::bytea AS input,
       CASE WHEN n.with_output THEN output END AS output,
       extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM unnest($2::text[], $3::integer[], $4::text[], $5::boolean[]) AS n (scope, generation, node, with_output)
  JOIN steps USING (scope, generation, node)
 WHERE run_id = $1

-- name: load_unfinished
-- Loads the next steps of a run in one of the unfinished states $2, after a number.
SELECT run_id, step, scope, generation, node, kind, status, lane, owner, priority, fence, lease_id, worker, failures,
       losses, effect_prefix, error, traceparent, taken, ended_rank, stopping, undecided, compensable, compensates, parked_on,
       parked_generation, parked_from, NULL::bytea AS input,
       NULL::bytea AS output,
       NULL::float8 AS lease_left
  FROM steps
 WHERE run_id = $1 AND status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   AND status = ANY ($2::step_status[]) AND step > $3
 ORDER BY step LIMIT $4

-- name: load_reopening
-- Loads the next steps of a run's top scope that a retry may decide again, after a number, each with its effect.
SELECT s.run_id, s.step, s.scope, s.generation, s.node, s.kind, s.status, s.lane, s.owner, s.priority, s.fence,
       s.lease_id, s.worker, s.failures, s.losses, s.effect_prefix, s.error, s.traceparent, s.taken,
       s.ended_rank, s.stopping, s.undecided, s.compensable, s.compensates, s.parked_on, s.parked_generation, s.parked_from,
       NULL::bytea AS input, CASE WHEN s.status = 'completed' THEN s.output END AS output, NULL::float8 AS lease_left,
       e.key AS effect_key, e.step AS effect_step, e.kind AS effect_kind, e.status AS effect_status,
       e.fence AS effect_fence,
       e.calls AS effect_calls, extract(epoch FROM clock_timestamp() - e.begun_at)::float8 AS effect_age
  FROM steps AS s
  LEFT JOIN effects AS e ON e.run_id = s.run_id AND e.key = s.effect_prefix || '/request'
 WHERE s.run_id = $1 AND s.step > $2 AND s.scope = ''
   AND (s.status IN ('failed', 'cancelled', 'skipped') OR (s.status = 'completed' AND s.ended_rank IS NULL))
 ORDER BY s.step LIMIT $3

-- name: load_compensable
-- Loads the next steps of a run to compensate, whose rank is less than $2, the last to end first, each with its effect.
SELECT s.run_id, s.step, s.scope, s.generation, s.node, s.kind, s.status, s.lane, s.owner, s.priority, s.fence,
       s.lease_id, s.worker, s.failures, s.losses, s.effect_prefix, s.error, s.traceparent, s.taken,
       s.ended_rank, s.stopping, s.undecided, s.compensable, s.compensates, s.parked_on, s.parked_generation,
       s.parked_from, NULL::bytea AS input, NULL::bytea AS output, NULL::float8 AS lease_left,
       e.key AS effect_key, e.step AS effect_step, e.kind AS effect_kind, e.status AS effect_status,
       e.fence AS effect_fence,
       e.calls AS effect_calls, extract(epoch FROM clock_timestamp() - e.begun_at)::float8 AS effect_age
  FROM steps AS s
  LEFT JOIN effects AS e ON e.run_id = s.run_id AND e.key = s.effect_prefix || '/request'
 WHERE s.run_id = $1 AND s.compensable AND s.ended_rank < $2
 ORDER BY s.ended_rank DESC LIMIT $3

-- name: load_top
-- Loads all steps of a run that stand in no sub-graph.
SELECT run_id, step, scope, generation, node, kind, status, lane, owner, priority, fence, lease_id, worker, failures,
       losses, effect_prefix, error, traceparent, taken, ended_rank, stopping, undecided, compensable,
       compensates, parked_on, parked_generation, parked_from, NULL::bytea AS input, NULL::bytea AS output,
       extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM steps WHERE run_id = $1 AND scope = ''

-- name: load_attempts
-- Loads the finished acquisitions of steps.
SELECT a.run_id, a.step, a.fence, a.lease_id, a.outcome, a.next_step
  FROM unnest($1::uuid[], $2::integer[]) AS n (run_id, step)
  JOIN attempts AS a ON a.run_id = n.run_id AND a.step = n.step
 ORDER BY a.run_id, a.step, a.fence

-- name: load_timers
-- Loads timers with the seconds until they are due.
SELECT timer_id, org, run_id, step, kind, generation, details,
       extract(epoch FROM due_at - clock_timestamp())::float8 AS remaining,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
  FROM timers WHERE timer_id = ANY ($1::bigint[])

-- name: load_passed
-- Tells of locked runs which of their limits have passed.
SELECT run_id, deadline_at <= clock_timestamp() AS deadline, age_at <= clock_timestamp() AS age
  FROM runs WHERE run_id = ANY ($1::uuid[])

-- name: load_inputs
-- Loads the inputs of runs.
SELECT run_id, input FROM runs WHERE run_id = ANY ($1::uuid[])

-- name: write
-- Writes a batch: one write per row, each guarded by the state that was loaded; returns a count per guard.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), run_insert AS (
    INSERT INTO runs (run_id, org, workflow_id, workflow, workflow_version, status, revision, generation, priority,
                      next_step, ended_nodes, inner_ended, next_seq, input, output, error, start_key, tags, traceparent,
                      parent_run, parent_step, parent_told, depth, open_children, awaited_children, created_at,
                      ended_at, age_at, deadline_at, pending, exclusive_key, start_at)
    SELECT u.run_id, u.org, u.workflow_id, u.workflow, u.workflow_version, u.status::run_status, u.revision,
           u.generation, u.priority, u.next_step, u.ended_nodes, u.inner_ended, u.next_seq, u.input, u.output,
           u.error, u.start_key, u.tags, u.traceparent, u.parent_run, u.parent_step, u.parent_told, u.depth,
           u.open_children, u.awaited_children, clock.now, CASE WHEN u.ended THEN clock.now END,
           clock.now + u.age * interval '1 s', clock.now + u.deadline * interval '1 s', u.pending,
           u.exclusive_key, coalesce(to_timestamp(u.start_at), clock.now + u.start_after * interval '1 s')
      FROM clock, :new_runs
), tag_insert AS (
    INSERT INTO run_tags (run_id, org, key, value)
    SELECT u.run_id, u.org, u.key, u.value FROM :new_tags
), run_update AS (
    UPDATE runs AS r
       SET status = u.status::run_status, revision = u.revision, generation = u.generation, next_step = u.next_step,
           ended_nodes = u.ended_nodes, inner_ended = u.inner_ended, scope_generation = u.scope_generation,
           next_seq = u.next_seq, open_children = u.open_children, awaited_children = u.awaited_children,
           output = CASE WHEN u.ended THEN coalesce(u.output, r.output) ELSE r.output END, -- only the end sets it
           error = u.error, pending = u.pending, begun_at = to_timestamp(u.begun_ms / 1000.0),
           age_at = coalesce(clock.now + u.age * interval '1 s', r.age_at),
           deadline_at = coalesce(clock.now + u.deadline * interval '1 s', r.deadline_at),
           ended_at = CASE WHEN u.ended THEN clock.now ELSE r.ended_at END
      FROM clock, :changed_runs
     WHERE r.run_id = u.run_id AND r.revision = u.before
    RETURNING r.run_id
), key_lock AS MATERIALIZED ( -- in key order, as starts claim them (R14)
    SELECT k.org, k.start_key
      FROM :closed_keys
      JOIN start_keys AS k ON k.org = u.org AND k.start_key = u.start_key AND k.run_id = u.run_id
     ORDER BY k.org COLLATE "C", k.start_key COLLATE "C" FOR UPDATE OF k
), key_close AS (
    UPDATE start_keys AS k SET expires_at = clock.now + :retention * interval '1 s'
      FROM clock, key_lock AS l
     WHERE k.org = l.org AND k.start_key = l.start_key
), step_insert AS (
    INSERT INTO steps (run_id, step, org, scope, generation, node, kind, status, lane, owner, priority, fence,
                       lease_id, lease_expires_at, try_expires_at, worker, failures, losses, effect_prefix, input,
                       output, error, traceparent, taken, ended_rank, stopping, compensable, compensates, created_at, started_at, ended_at)
    SELECT u.run_id, u.step, u.org, u.scope, u.generation, u.node, u.kind, u.status::step_status, u.lane, u.owner,
           u.priority, u.fence, u.lease_id, clock.now + u.lease_for * interval '1 s',
           clock.now + u.try_for * interval '1 s', u.worker, u.failures, u.losses, u.effect_prefix, u.input, u.output,
           u.error, u.traceparent, string_to_array(u.taken, ' '), u.ended_rank, u.stopping, u.compensable,
           u.compensates, clock.now, CASE WHEN u.fence > 0 THEN clock.now END,
           CASE WHEN u.ended THEN clock.now END
      FROM clock, :new_steps
), step_update AS (
    UPDATE steps AS s
       SET status = u.status::step_status, fence = u.fence, lease_id = u.lease_id, worker = u.worker,
           lease_expires_at = CASE WHEN u.status <> 'running' THEN NULL -- without a lease to grant the old one stays
                                   WHEN u.lease_for IS NULL THEN s.lease_expires_at
                                   ELSE clock.now + u.lease_for * interval '1 s' END,
           try_expires_at = CASE WHEN u.status <> 'running' THEN NULL
                                 WHEN u.lease_for IS NULL THEN s.try_expires_at
                                 ELSE clock.now + u.try_for * interval '1 s' END,
           failures = u.failures, losses = u.losses, output = u.output, error = u.error,
           taken = string_to_array(u.taken, ' '), ended_rank = u.ended_rank, stopping = u.stopping,
           undecided = u.undecided, compensable = u.compensable, parked_on = u.parked_on, parked_generation = u.parked_generation,
           parked_from = u.parked_from::step_status,
           started_at = CASE WHEN u.fence > s.fence THEN clock.now ELSE s.started_at END,
           ended_at = CASE WHEN u.ended THEN clock.now
                           WHEN u.status IN ('completed', 'failed', 'skipped', 'cancelled') THEN s.ended_at END
      FROM clock, :changed_steps
     WHERE s.run_id = u.run_id AND s.step = u.step
       AND s.status = u.before::step_status AND s.fence = u.before_fence
       AND s.lease_id IS NOT DISTINCT FROM u.before_lease
       AND (u.timed_out IS NULL -- a write that takes a lease away finds it run out, and why (R6)
            OR (s.lease_expires_at <= clock.now
                AND u.timed_out = coalesce(s.lease_expires_at >= s.try_expires_at, false)))
    RETURNING s.run_id
), attempt_insert AS (
    INSERT INTO attempts (run_id, step, fence, lease_id, worker, outcome, error, next_step, started_at, ended_at)
    SELECT u.run_id, u.step, u.fence, u.lease_id, u.worker, u.outcome, u.error, u.next_step,
           coalesce(s.started_at, clock.now), clock.now
      FROM clock, :new_attempts
      LEFT JOIN steps AS s ON s.run_id = u.run_id AND s.step = u.step AND s.fence = u.fence
), effect_insert AS (
    INSERT INTO effects (run_id, key, org, step, kind, status, fence, calls, begun_at, settled_at)
    SELECT u.run_id, u.key, u.org, u.step, u.kind, u.status::effect_status, u.fence, u.calls, clock.now,
           CASE WHEN u.status = 'settled' THEN clock.now END
      FROM clock, :new_effects
), effect_update AS (
    UPDATE effects AS e
       SET step = u.step, status = u.status::effect_status, fence = u.fence, calls = u.calls,
           settled_at = CASE WHEN u.status = 'settled' THEN coalesce(e.settled_at, clock.now) END
      FROM clock, :changed_effects
     WHERE e.run_id = u.run_id AND e.key = u.key
    RETURNING e.run_id
), history_insert AS (
    INSERT INTO history (run_id, seq, at, kind, step, fence, details)
    SELECT u.run_id, u.seq, clock.now, u.kind, u.step, u.fence, u.details
      FROM clock, :new_history
), outbox_delete AS (
    DELETE FROM outbox AS o USING :dequeued
     WHERE o.run_id = u.run_id AND o.step = u.step
), outbox_insert AS (
    INSERT INTO outbox (org, run_id, step, lane, owner, slot, priority, job, traceparent, created_at)
    SELECT u.org, u.run_id, u.step, u.lane, u.owner, u.slot, u.priority, u.job, u.traceparent, clock.now
      FROM clock, :enqueued
    ON CONFLICT ON CONSTRAINT outbox_one_per_step DO UPDATE SET state = 'ready', sent_at = NULL, entry_id = NULL
), timer_delete AS (
    DELETE FROM timers AS t USING clock, :dropped_timers
     WHERE t.timer_id = u.timer_id AND t.due_at <= clock.now
    RETURNING t.timer_id
), step_timer_delete AS (
    DELETE FROM timers AS t USING :dropped_step_timers
     WHERE t.run_id = u.run_id AND t.step = u.step AND (u.deadline OR t.kind <> 'deadline')
       AND t.kind NOT IN ('start_child', 'child_ended') -- of these runs somebody must know first
       AND t.timer_id <> ALL (:dropped_timers.timer_id) -- deleted and counted above
), timer_insert AS (
    INSERT INTO timers (org, run_id, step, kind, internal, generation, due_at, next_try, details)
    SELECT u.org, u.run_id, u.step, u.kind, u.internal, u.generation, due.at, due.at, u.details
      FROM clock, :new_timers
     CROSS JOIN LATERAL (SELECT coalesce(to_timestamp(u.at), clock.now + u.after * interval '1 s') AS at) AS due
)
SELECT (SELECT count(*) FROM run_update) AS runs, (SELECT count(*) FROM step_update) AS steps,
       (SELECT count(*) FROM effect_update) AS effects, (SELECT count(*) FROM timer_delete) AS timers,
       (extract(epoch FROM (SELECT now FROM clock)) * 1000)::bigint AS now_ms
