-- What changes seldom: lanes and published workflows.

-- name: lanes
-- All lanes with their settings.
SELECT lane, shards, stream_ceiling, hand_out_ms, lease_ms, poison_limit, retry_max, retry_base_ms, retry_factor,
       retry_cap_ms
  FROM lanes ORDER BY lane

-- name: documents
-- The documents of workflows.
SELECT workflow_id, document FROM workflows WHERE workflow_id = ANY ($1::bigint[])

-- name: prefetches
-- What decisions on workflows may read when a node ended, as it was found at publish.
SELECT workflow_id, node, steps, outputs, input FROM workflow_nodes WHERE workflow_id = ANY ($1::bigint[])

-- name: resolve
-- The workflow of each wish (org, name, version or 0 for the latest), null where there is none.
SELECT u.place, w.workflow_id, w.version
  FROM unnest($1::text[], $2::text[], $3::integer[]) WITH ORDINALITY AS u (org, name, version, place)
  LEFT JOIN LATERAL (
      SELECT workflow_id, version FROM workflows
       WHERE org = u.org AND name = u.name AND (u.version = 0 OR version = u.version)
       ORDER BY version DESC LIMIT 1
  ) AS w ON true
 ORDER BY u.place

-- name: lock_name
-- Makes publishers of one name take turns, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('perdure.workflow/' || $1 || '/' || $2, 0))

-- name: latest
-- The latest version of a name.
SELECT workflow_id, version, digest, published_at FROM workflows
 WHERE org = $1 AND name = $2 ORDER BY version DESC LIMIT 1

-- name: publish
-- Adds a version.
INSERT INTO workflows (org, name, version, digest, document) VALUES ($1, $2, $3, $4, $5)
RETURNING workflow_id, version, digest, published_at

-- name: publish_nodes
-- Adds what decisions on a version may read when a node ended, and what its nodes publish.
INSERT INTO workflow_nodes (workflow_id, node, steps, outputs, input, publish)
SELECT $1, u.node, string_to_array(u.steps, ' '), string_to_array(u.outputs, ' '), u.input, u.publish
  FROM unnest($2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[])
       AS u (node, steps, outputs, input, publish)
