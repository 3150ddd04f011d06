-- Sub-graphs of a run: their scopes, and the counters of the steps that hold them.

-- name: write
-- Writes scopes and counters; what a scope was given stays as it was made.
WITH scope_write AS (
    INSERT INTO scopes (run_id, scope, generation, owner, index, status, ended_nodes, item, carry, output, error)
    SELECT u.run_id, u.scope, u.generation, u.owner, u.index, u.status::scope_status, u.ended_nodes, u.item, u.carry,
           u.output, u.error
      FROM :scopes
        ON CONFLICT ON CONSTRAINT scopes_pkey DO UPDATE
       SET status = excluded.status, ended_nodes = excluded.ended_nodes, output = excluded.output,
           error = excluded.error
)
INSERT INTO blocks (run_id, step, generation, total, at_once, made, begun, ended, failed, ending, error)
SELECT u.run_id, u.step, u.generation, u.total, u.at_once, u.made, u.begun, u.ended, u.failed, u.ending, u.error
  FROM :blocks
    ON CONFLICT ON CONSTRAINT blocks_pkey DO UPDATE
   SET generation = excluded.generation, total = excluded.total, at_once = excluded.at_once, made = excluded.made,
       begun = excluded.begun, ended = excluded.ended, failed = excluded.failed, ending = excluded.ending,
       error = excluded.error

-- name: forget
-- Deletes ended scopes and all in them; what they did outside stays in the ledger of effects.
SELECT forget_scopes($1::uuid[], $2::text[])

-- name: load_scopes
-- Loads scopes and all scopes around them up to the top, and of each for_each the next items to begin.
WITH RECURSIVE around AS (
    SELECT s.run_id, s.scope, s.generation, s.owner, s.index, s.status, s.ended_nodes, s.item, s.carry, s.error,
           o.scope AS outer_scope, o.generation AS outer_generation
      FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS n (run_id, scope, generation)
      JOIN scopes AS s ON s.run_id = n.run_id AND s.scope = n.scope AND s.generation = n.generation
      JOIN steps AS o ON o.run_id = s.run_id AND o.step = s.owner
    UNION
    SELECT s.run_id, s.scope, s.generation, s.owner, s.index, s.status, s.ended_nodes, s.item, s.carry, s.error,
           o.scope, o.generation
      FROM around AS a
      JOIN scopes AS s ON s.run_id = a.run_id AND s.scope = a.outer_scope AND s.generation = a.outer_generation
      JOIN steps AS o ON o.run_id = s.run_id AND o.step = s.owner
), upcoming AS (
    SELECT DISTINCT a.run_id, b.generation, b.begun, b.made,
           CASE WHEN o.scope = '' THEN o.node ELSE o.scope || '.' || o.node END AS path
      FROM around AS a
      JOIN blocks AS b ON b.run_id = a.run_id AND b.step = a.owner
      JOIN steps AS o ON o.run_id = a.run_id AND o.step = a.owner
     WHERE b.begun < b.made
)
SELECT run_id, scope, generation, owner, index, status, ended_nodes, item, carry, error FROM around
UNION ALL
SELECT s.run_id, s.scope, s.generation, s.owner, s.index, s.status, s.ended_nodes, s.item, s.carry, s.error
  FROM upcoming AS u
 CROSS JOIN generate_series(u.begun, LEAST(u.made, u.begun + $4) - 1) AS next (index)
  JOIN scopes AS s ON s.run_id = u.run_id AND s.scope = u.path || '[' || next.index || ']' AND s.generation = u.generation

-- name: load_blocks
-- Loads the counters of steps.
SELECT b.run_id, b.step, b.generation, b.total, b.at_once, b.made, b.begun, b.ended, b.failed, b.ending, b.error
  FROM unnest($1::uuid[], $2::integer[]) AS n (run_id, step)
  JOIN blocks AS b ON b.run_id = n.run_id AND b.step = n.step

-- name: load_owners
-- Loads the steps that hold scopes.
SELECT run_id, step, scope, generation, node, kind, status, lane, owner, priority, fence, lease_id, worker, failures,
       losses, effect_prefix, error, traceparent, taken, ended_rank, stopping, undecided, compensable, compensates, parked_on,
       parked_generation, parked_from, NULL::bytea AS input,
       NULL::bytea AS output, NULL::float8 AS lease_left
  FROM unnest($1::uuid[], $2::integer[]) AS n (run_id, step) JOIN steps USING (run_id, step)

-- name: load_rows
-- Loads scopes with what they ended with, in the order of their places.
SELECT scope, generation, owner, index, status, ended_nodes, NULL::bytea AS item, NULL::bytea AS carry, output, error
  FROM scopes
 WHERE run_id = $1 AND scope = ANY ($2::text[]) AND generation = $3
 ORDER BY index

-- name: load_open_inside
-- Loads the next unfinished steps whose scopes' paths begin in one way.
SELECT run_id, step, scope, generation, node, kind, status, lane, owner, priority, fence, lease_id, worker, failures,
       losses, effect_prefix, error, traceparent, taken, ended_rank, stopping, undecided, compensable, compensates, parked_on,
       parked_generation, parked_from, NULL::bytea AS input,
       NULL::bytea AS output,
       extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM steps
 WHERE run_id = $1 AND status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   AND starts_with(scope, $2)
 ORDER BY step LIMIT $3
