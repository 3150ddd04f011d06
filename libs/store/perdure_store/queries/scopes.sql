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
-- OFFSET 0 keeps each look-up by its whole key: with what is known of a new month, joins would read all of a run.
WITH RECURSIVE around AS (
    SELECT s.*, o.scope AS outer_scope, o.generation AS outer_generation, o.node AS owner_node
      FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS n (run_id, scope, generation)
     CROSS JOIN LATERAL (
           SELECT run_id, scope, generation, owner, index, status, ended_nodes, item, carry, error
             FROM scopes WHERE run_id = n.run_id AND scope = n.scope AND generation = n.generation OFFSET 0) AS s
     CROSS JOIN LATERAL (
           SELECT scope, generation, node FROM steps WHERE run_id = s.run_id AND step = s.owner OFFSET 0) AS o
    UNION
    SELECT s.*, o.scope, o.generation, o.node
      FROM around AS a
     CROSS JOIN LATERAL (
           SELECT run_id, scope, generation, owner, index, status, ended_nodes, item, carry, error
             FROM scopes
            WHERE run_id = a.run_id AND scope = a.outer_scope AND generation = a.outer_generation OFFSET 0) AS s
     CROSS JOIN LATERAL (
           SELECT scope, generation, node FROM steps WHERE run_id = s.run_id AND step = s.owner OFFSET 0) AS o
), loops AS (
    SELECT DISTINCT run_id, owner,
           CASE WHEN outer_scope = '' THEN owner_node ELSE outer_scope || '.' || owner_node END AS path
      FROM around
), upcoming AS (
    SELECT l.run_id, b.generation, l.path || '[' || next.index || ']' AS scope
      FROM loops AS l
     CROSS JOIN LATERAL (
           SELECT generation, begun, made FROM blocks WHERE run_id = l.run_id AND step = l.owner OFFSET 0) AS b
     CROSS JOIN generate_series(b.begun, LEAST(b.made, b.begun + $4) - 1) AS next (index)
)
SELECT run_id, scope, generation, owner, index, status, ended_nodes, item, carry, error FROM around
UNION ALL
SELECT s.*
  FROM upcoming AS u
 CROSS JOIN LATERAL (
       SELECT run_id, scope, generation, owner, index, status, ended_nodes, item, carry, error
         FROM scopes WHERE run_id = u.run_id AND scope = u.scope AND generation = u.generation OFFSET 0) AS s

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
