-- What changes seldom: lanes and published workflows.

-- name: lanes
-- All lanes with their settings.
SELECT lane, shards, stream_ceiling, hand_out_ms, lease_ms, poison_limit, retry_max, retry_base_ms, retry_factor,
       retry_cap_ms
  FROM lanes ORDER BY lane

-- name: lock_lane
-- A lane, locked against other changes and against versions that begin to use it.
SELECT lane, shards, stream_ceiling, hand_out_ms, lease_ms, poison_limit, retry_max, retry_base_ms, retry_factor,
       retry_cap_ms
  FROM lanes WHERE lane = $1 FOR UPDATE

-- name: put_lane
-- Makes a lane, or changes all its settings.
INSERT INTO lanes (lane, shards, stream_ceiling, hand_out_ms, lease_ms, poison_limit, retry_max, retry_base_ms,
                   retry_factor, retry_cap_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT ON CONSTRAINT lanes_pkey DO UPDATE
   SET shards = $2, stream_ceiling = $3, hand_out_ms = $4, lease_ms = $5, poison_limit = $6, retry_max = $7,
       retry_base_ms = $8, retry_factor = $9, retry_cap_ms = $10

-- name: lane_is_used
-- Whether a published version uses a lane.
SELECT EXISTS (SELECT FROM workflow_lanes WHERE lane = $1)

-- name: drop_lane
-- Removes a lane that no version uses.
DELETE FROM lanes WHERE lane = $1

-- name: orgs
-- Every org and its weight.
SELECT org, weight FROM org_weights()

-- name: lock_org
-- The weight of an org, locked against other changes.
SELECT weight FROM orgs WHERE org = $1 FOR UPDATE

-- name: put_weight
-- Sets the weight of an org.
UPDATE orgs SET weight = $2 WHERE org = $1

-- name: documents
-- The documents of workflows.
SELECT workflow_id, document FROM workflows WHERE workflow_id = ANY ($1::bigint[])

-- name: prefetches
-- What decisions on workflows may read when a node ended, as it was found at publish.
SELECT workflow_id, node, steps, outputs, input FROM workflow_nodes WHERE workflow_id = ANY ($1::bigint[])

-- name: resolve
-- The workflow of each wish (org, name, version or 0 for the latest), null where there is none. The planner is not
-- shown how many wishes there are, so that it keeps one plan: making it takes five times as long as the lookup.
SELECT u.place, w.workflow_id, w.version
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::integer[])) WITH ORDINALITY
       AS u (org, name, version, place)
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

-- name: publish_lanes
-- Says which lanes a version uses.
INSERT INTO workflow_lanes (workflow_id, lane) SELECT $1, unnest($2::text[])
