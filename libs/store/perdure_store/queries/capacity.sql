-- Places at connections. What may be taken is locked before any run; it is written once it was granted.

-- name: wishes
-- The connections of steps that are about to be leased, as their outbox rows say.
SELECT o.run_id, o.step, o.org, o.connection
  FROM unnest($1::uuid[], $2::integer[]) AS n (run_id, step)
  JOIN outbox AS o ON o.run_id = n.run_id AND o.step = n.step
 WHERE o.connection IS NOT NULL

-- name: lock
-- Locks, in order, connections of which a grant is written on the row itself: those with a rate or an open breaker.
SELECT c.org, c.name
  FROM connections AS c JOIN unnest($1::text[], $2::text[]) AS n (org, name) ON c.org = n.org AND c.name = n.name
 WHERE c.rate IS NOT NULL OR c.open_until IS NOT NULL
 ORDER BY c.org, c.name FOR UPDATE OF c

-- name: lock_free
-- The same under a run's lock, where nothing is waited for.
SELECT c.org, c.name
  FROM connections AS c JOIN unnest($1::text[], $2::text[]) AS n (org, name) ON c.org = n.org AND c.name = n.name
 WHERE c.rate IS NOT NULL OR c.open_until IS NOT NULL
 ORDER BY c.org, c.name FOR UPDATE OF c SKIP LOCKED

-- name: read
-- How connections stand: whether a grant is written on the row, and how many more steps each bears beside its slots.
SELECT n.org, n.name, c.name IS NULL AS missing, c.disabled, c.refused = c.generation AS refused, c.slots,
       coalesce(k.generation, 1) AS generation, c.rate IS NOT NULL OR c.open_until IS NOT NULL AS noted,
       c.open_until IS NOT NULL AS half_open,
       CASE
           WHEN c.open_until > clock_timestamp() THEN 0
           WHEN c.open_until IS NOT NULL THEN
               CASE WHEN c.probe_lease = (
                             SELECT CASE WHEN s.status = 'running' THEN s.lease_id END
                               FROM steps AS s WHERE s.run_id = c.probe_run AND s.step = c.probe_step
                         )
                    THEN 0 ELSE 1 END
           WHEN c.rate IS NULL THEN 100000
           ELSE floor(least(100000, c.burst,
                            c.tokens + c.rate * extract(epoch FROM clock_timestamp() - c.filled_at)) + 1e-6)
       END::integer AS bears
  FROM unnest($1::text[], $2::text[]) AS n (org, name)
  LEFT JOIN connections AS c ON c.org = n.org AND c.name = n.name
  LEFT JOIN causes AS k ON k.org = n.org AND k.cause = 'connection:' || n.name

-- name: lock_slots
-- Locks at most $3 free places of each connection in the order of their ids; none while a place beyond $4 is held.
SELECT f.org, f.connection, f.slot
  FROM unnest($1::text[], $2::text[], $3::integer[], $4::integer[]) WITH ORDINALITY AS n (org, name, wanted, slots, turn)
 CROSS JOIN LATERAL (
       SELECT s.org, s.connection, s.slot
         FROM connection_slots AS s
        WHERE s.org = n.org AND s.connection = n.name AND s.slot <= n.slots AND s.lease_id IS NULL
          AND NOT EXISTS (
              SELECT FROM connection_slots AS above
               WHERE above.org = n.org AND above.connection = n.name AND above.slot > n.slots
                 AND above.lease_id IS NOT NULL
          )
        ORDER BY s.slot LIMIT n.wanted FOR UPDATE SKIP LOCKED
 ) AS f
 ORDER BY n.turn, f.slot

-- name: take_slots
-- Gives locked places to the leases that were granted.
UPDATE connection_slots AS s SET run_id = u.run_id, step = u.step, lease_id = u.lease_id
  FROM unnest($1::text[], $2::text[], $3::integer[], $4::uuid[], $5::integer[], $6::uuid[])
       AS u (org, connection, slot, run_id, step, lease_id)
 WHERE s.org = u.org AND s.connection = u.connection AND s.slot = u.slot

-- name: note_grants
-- Takes tokens from locked connections, and notes the step that tries a half-open breaker.
UPDATE connections AS c
   SET tokens = CASE WHEN c.rate IS NULL THEN c.tokens
                     ELSE least(c.burst, c.tokens + c.rate * extract(epoch FROM clock_timestamp() - c.filled_at)) - u.granted
                END,
       filled_at = CASE WHEN c.rate IS NULL THEN c.filled_at ELSE clock_timestamp() END,
       probe_run = CASE WHEN c.open_until IS NULL THEN NULL ELSE u.run_id END,
       probe_step = CASE WHEN c.open_until IS NULL THEN NULL ELSE u.step END,
       probe_lease = CASE WHEN c.open_until IS NULL THEN NULL ELSE u.lease_id END
  FROM unnest($1::text[], $2::text[], $3::integer[], $4::uuid[], $5::integer[], $6::uuid[])
       AS u (org, name, granted, run_id, step, lease_id)
 WHERE c.org = u.org AND c.name = u.name

-- name: free_slots
-- Gives back the places of leases that ended, and lets as many blocked rows of the same connections go.
WITH freed AS (
    UPDATE connection_slots AS s SET run_id = NULL, step = NULL, lease_id = NULL
      FROM unnest($1::uuid[], $2::integer[], $3::uuid[]) AS u (run_id, step, lease_id)
     WHERE s.run_id = u.run_id AND s.step = u.step AND s.lease_id = u.lease_id
       AND NOT EXISTS ( -- its call may still be under way
           SELECT FROM effects AS e
            WHERE e.run_id = s.run_id AND e.step = s.step AND e.status = 'in_flight' AND e.lease_expires_at > clock_timestamp()
       )
    RETURNING s.org, s.connection
), room AS (
    SELECT f.org, f.connection, count(*) AS freed FROM freed AS f GROUP BY f.org, f.connection
), picked AS (
    SELECT p.outbox_id
      FROM room AS r
      JOIN connections AS c ON c.org = r.org AND c.name = r.connection AND c.open_until IS NULL
     CROSS JOIN LATERAL (
           SELECT o.outbox_id FROM outbox AS o
            WHERE o.state = 'blocked' AND o.org = r.org AND o.connection = r.connection
            ORDER BY o.priority DESC, o.outbox_id LIMIT r.freed FOR UPDATE SKIP LOCKED
     ) AS p
)
UPDATE outbox AS o SET state = 'ready' FROM picked AS p WHERE o.outbox_id = p.outbox_id RETURNING o.outbox_id

-- name: connect_rows
-- Says on outbox rows what their steps need a place at.
UPDATE outbox AS o SET connection = u.connection
  FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS u (run_id, step, connection)
 WHERE o.run_id = u.run_id AND o.step = u.step

-- name: keep_connections
-- Keeps the connections that expressions gave.
INSERT INTO step_connections (run_id, step, org, connection)
SELECT u.run_id, u.step, u.org, u.connection
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[]) AS u (run_id, step, org, connection)
    ON CONFLICT ON CONSTRAINT step_connections_pkey DO UPDATE SET connection = EXCLUDED.connection

-- name: load_connections
-- Loads the connections that expressions gave.
SELECT step, connection FROM step_connections WHERE run_id = $1 AND step = ANY ($2::integer[])

-- name: block
-- Keeps outbox rows back until their connections have room.
UPDATE outbox AS o SET state = 'blocked', sent_at = NULL, entry_id = NULL, blocked_at = clock_timestamp()
  FROM unnest($1::uuid[], $2::integer[]) AS u (run_id, step)
 WHERE o.run_id = u.run_id AND o.step = u.step AND o.connection IS NOT NULL

-- name: unblock
-- Lets blocked rows go whose connections have room, as many as there is room for.
WITH picked AS (
    SELECT p.outbox_id
      FROM connection_room(interval '0') AS r
     CROSS JOIN LATERAL (
           SELECT o.outbox_id FROM outbox AS o
            WHERE o.state = 'blocked' AND o.org = r.org AND o.connection = r.connection
            ORDER BY o.priority DESC, o.outbox_id LIMIT greatest(0, r.room) FOR UPDATE SKIP LOCKED
     ) AS p
)
UPDATE outbox AS o SET state = 'ready' FROM picked AS p WHERE o.outbox_id = p.outbox_id RETURNING o.outbox_id

-- name: has_unblockable
-- Whether there are blocked rows whose connections have room.
SELECT EXISTS (SELECT FROM connection_room(interval '0') AS r WHERE r.room > 0)

-- name: free_leaked
-- Gives back at most $1 places that no lease holds any more.
-- A lease that is over is over for good; that the place is still its own is looked up again under the lock.
WITH leaked AS MATERIALIZED (
    SELECT s.org, s.connection, s.slot, s.lease_id
      FROM connection_slots AS s
     WHERE s.lease_id IS NOT NULL
       AND s.lease_id IS DISTINCT FROM (
           SELECT CASE WHEN x.status = 'running' THEN x.lease_id END
             FROM steps AS x WHERE x.run_id = s.run_id AND x.step = s.step
       )
       AND NOT EXISTS ( -- its call may still be under way
           SELECT FROM effects AS e
            WHERE e.run_id = s.run_id AND e.step = s.step AND e.status = 'in_flight' AND e.lease_expires_at > clock_timestamp()
       )
     ORDER BY s.org, s.connection, s.slot LIMIT $1
), locked AS (
    SELECT s.org, s.connection, s.slot
      FROM connection_slots AS s
      JOIN leaked AS l ON l.org = s.org AND l.connection = s.connection AND l.slot = s.slot AND l.lease_id = s.lease_id
     ORDER BY s.org, s.connection, s.slot FOR UPDATE OF s SKIP LOCKED
)
UPDATE connection_slots AS s SET run_id = NULL, step = NULL, lease_id = NULL
  FROM locked AS l
 WHERE s.org = l.org AND s.connection = l.connection AND s.slot = l.slot
RETURNING s.org

-- name: count_leaked
-- How many places no lease holds any more.
SELECT count(*)
  FROM connection_slots AS s
 WHERE s.lease_id IS NOT NULL
   AND s.lease_id IS DISTINCT FROM (
       SELECT CASE WHEN x.status = 'running' THEN x.lease_id END
         FROM steps AS x WHERE x.run_id = s.run_id AND x.step = s.step
   )
   AND NOT EXISTS ( -- its call may still be under way
       SELECT FROM effects AS e
        WHERE e.run_id = s.run_id AND e.step = s.step AND e.status = 'in_flight' AND e.lease_expires_at > clock_timestamp()
   )
