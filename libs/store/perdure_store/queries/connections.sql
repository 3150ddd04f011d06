-- Connections as operators make and repair them, and how tries say that they do.

-- name: lock_one
-- Locks a connection that is about to be changed.
SELECT generation, disabled, base_url, scheme, has_credentials, slots, rate, burst, max_failures, open_ms, probe_path
  FROM connections WHERE org = $1 AND name = $2 FOR UPDATE

-- name: put
-- Makes a connection, or gives one other settings; without new credentials it keeps those that it has.
INSERT INTO connections AS c
       (org, name, base_url, scheme, has_credentials, slots, rate, burst, tokens, filled_at, max_failures, open_ms,
        probe_path, generation, created_at, changed_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $8, t.now, $9, $10, $11, $12, t.now, t.now
  FROM (SELECT clock_timestamp() AS now) AS t
    ON CONFLICT ON CONSTRAINT connections_pkey DO UPDATE
   SET base_url = EXCLUDED.base_url, scheme = EXCLUDED.scheme,
       has_credentials = c.has_credentials OR EXCLUDED.has_credentials, slots = EXCLUDED.slots, rate = EXCLUDED.rate, burst = EXCLUDED.burst,
       max_failures = EXCLUDED.max_failures, open_ms = EXCLUDED.open_ms, probe_path = EXCLUDED.probe_path,
       generation = EXCLUDED.generation, changed_at = EXCLUDED.changed_at

-- name: put_secret
-- Replaces the sealed credentials of a connection.
INSERT INTO connection_secrets (org, connection, key_id, sealed) VALUES ($1, $2, $3, $4)
    ON CONFLICT ON CONSTRAINT connection_secrets_pkey DO UPDATE SET key_id = EXCLUDED.key_id, sealed = EXCLUDED.sealed

-- name: make_slots
-- Makes the places of a connection that it has not got yet; those beyond its limit are taken by nobody.
INSERT INTO connection_slots (org, connection, slot)
SELECT $1, $2, n FROM generate_series(1, $3::integer) AS n ON CONFLICT DO NOTHING

-- name: repair
-- Lets steps use a connection again: it is enabled, its breaker closed, and its credentials count as good.
UPDATE connections
   SET disabled = false, failures = 0, opened = 0, open_until = NULL, probe_run = NULL, probe_step = NULL,
       probe_lease = NULL, generation = $3, changed_at = clock_timestamp()
 WHERE org = $1 AND name = $2

-- name: disable
-- Lets no step use a connection.
UPDATE connections SET disabled = true, changed_at = clock_timestamp() WHERE org = $1 AND name = $2

-- name: delete
-- Removes a connection with its places.
DELETE FROM connections WHERE org = $1 AND name = $2

-- name: tell
-- Counts how tries went. Only the one that probed a breaker closes it; failures in a row open it, longer each time.
UPDATE connections AS c
   SET failures = n.failures,
       opened = CASE WHEN n.opens THEN c.opened + 1 WHEN n.closes THEN 0 ELSE c.opened END,
       open_until = greatest(
           CASE WHEN n.opens THEN t.now + least(c.open_ms * power(2, least(c.opened, 20)), 600000) * interval '1 ms'
                WHEN n.closes THEN NULL
                ELSE c.open_until END,
           t.now + u.retry_after * interval '1 s'
       ),
       probe_run = CASE WHEN n.probed THEN NULL ELSE c.probe_run END,
       probe_step = CASE WHEN n.probed THEN NULL ELSE c.probe_step END,
       probe_lease = CASE WHEN n.probed THEN NULL ELSE c.probe_lease END,
       refused = CASE WHEN u.refused IN (0, c.generation) THEN c.generation ELSE c.refused END
  FROM unnest($1::text[], $2::text[], $3::boolean[], $4::integer[], $5::float8[], $6::integer[], $7::text[])
       AS u (org, name, went_well, failed, retry_after, refused, leases)
 CROSS JOIN (SELECT clock_timestamp() AS now) AS t
  JOIN connections AS b ON b.org = u.org AND b.name = u.name
 CROSS JOIN LATERAL (
       SELECT coalesce(b.probe_lease::text = ANY (string_to_array(u.leases, ' ')), false) AS probed
 ) AS p
 CROSS JOIN LATERAL (
       SELECT CASE WHEN u.went_well THEN 0 ELSE b.failures END + u.failed AS failures, p.probed,
              u.failed > 0 AND (p.probed OR (b.open_until IS NULL
                  AND CASE WHEN u.went_well THEN 0 ELSE b.failures END + u.failed >= b.max_failures)) AS opens,
              u.went_well AND u.failed = 0 AND p.probed AS closes
 ) AS n
 WHERE c.org = u.org AND c.name = u.name
   AND (u.failed > 0 OR u.retry_after IS NOT NULL OR u.refused IS NOT NULL OR n.probed OR b.failures > 0)

-- name: lock_told
-- Locks the connections that tries tell of, in order, before they are counted.
SELECT c.org, c.name
  FROM connections AS c JOIN unnest($1::text[], $2::text[]) AS n (org, name) ON c.org = n.org AND c.name = n.name
 ORDER BY c.org, c.name FOR UPDATE OF c

-- name: sealed
-- The sealed credentials of connections, with what goes to a worker beside them.
SELECT c.org, c.name, c.generation, c.base_url, c.scheme, c.disabled, c.refused = c.generation AS refused,
       s.key_id, s.sealed
  FROM connections AS c JOIN unnest($1::text[], $2::text[]) AS n (org, name) ON c.org = n.org AND c.name = n.name
  LEFT JOIN connection_secrets AS s ON s.org = c.org AND s.connection = c.name

-- name: list
-- Lists connections of an org after the name $2, or the one named $3: how they stand, without anything secret.
SELECT c.name, c.base_url, c.scheme, c.has_credentials, c.slots, c.rate, c.burst,
       c.max_failures, c.open_ms, c.failures, c.disabled, c.refused = c.generation AS refused, c.generation,
       c.probe_path, c.created_at, c.changed_at, c.open_until IS NOT NULL AS tripped,
       greatest(0, extract(epoch FROM c.open_until - clock_timestamp()))::float8 AS opens_in,
       (SELECT count(*) FROM connection_slots AS s
         WHERE s.org = c.org AND s.connection = c.name AND s.lease_id IS NOT NULL) AS in_use,
       (SELECT count(*) FROM outbox AS o
         WHERE o.state = 'blocked' AND o.org = c.org AND o.connection = c.name) AS blocked,
       (SELECT count(*) FROM steps AS s WHERE s.org = c.org AND s.parked_on = 'connection:' || c.name) AS parked
  FROM connections AS c
 WHERE c.org = $1 AND c.name > $2 AND ($3 = '' OR c.name = $3)
 ORDER BY c.name LIMIT $4

-- name: measure
-- What is in use, blocked and tripped over all connections.
SELECT (SELECT count(*) FROM connection_slots WHERE lease_id IS NOT NULL) AS slots_in_use,
       (SELECT count(*) FROM outbox WHERE state = 'blocked') AS blocked_rows,
       count(*) FILTER (WHERE open_until > clock_timestamp()) AS open,
       count(*) FILTER (WHERE open_until <= clock_timestamp()) AS half_open,
       count(*) FILTER (WHERE open_until IS NULL) AS closed,
       count(*) FILTER (WHERE refused = generation OR disabled) AS unusable
  FROM connections

-- name: troubled
-- Connections of an org that need a person or fail, and names that parked steps wait for in vain.
SELECT c.name,
       CASE WHEN c.disabled THEN 'disabled' WHEN c.refused = c.generation THEN 'reconnect' ELSE 'open' END AS health,
       p.steps AS parked
  FROM connections AS c
 CROSS JOIN LATERAL (
       SELECT count(*) AS steps FROM steps AS s WHERE s.org = c.org AND s.parked_on = 'connection:' || c.name
 ) AS p
 WHERE c.org = $1
   AND (c.refused = c.generation OR c.open_until > clock_timestamp() OR (c.disabled AND p.steps > 0))
UNION ALL
SELECT substr(s.parked_on, length('connection:') + 1), 'missing', count(*)
  FROM steps AS s
 WHERE s.org = $1 AND s.parked_on LIKE 'connection:%'
   AND NOT EXISTS (
       SELECT FROM connections AS c WHERE c.org = s.org AND 'connection:' || c.name = s.parked_on
   )
 GROUP BY s.parked_on
 ORDER BY 1 LIMIT $2
