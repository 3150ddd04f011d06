-- The relay's view of the outbox. Rows are selected by their state, never by a high-water mark (R4): a
-- lower id may be committed later (F075). A row's shard is its slot modulo the lane's shards of now.

-- name: ready_queues
-- The queues that have ready rows, by a loose index scan.
WITH RECURSIVE queues AS (
    (SELECT o.lane, o.owner FROM outbox AS o WHERE o.state = 'ready' ORDER BY o.lane, o.owner LIMIT 1)
    UNION ALL
    SELECT n.lane, n.owner
      FROM queues AS q
     CROSS JOIN LATERAL (
           SELECT o.lane, o.owner FROM outbox AS o
            WHERE o.state = 'ready' AND (o.lane, o.owner) > (q.lane, q.owner)
            ORDER BY o.lane, o.owner LIMIT 1
     ) AS n
)
SELECT lane, owner FROM queues

-- name: few_ready
-- The first $1 ready rows of all queues, with the shard that each is in; null where there is no such lane.
SELECT o.lane, o.owner, o.slot % l.shards AS shard, o.outbox_id, o.org, o.run_id, o.step, o.traceparent, o.job,
       o.connection IS NOT NULL AS capacity
  FROM (SELECT * FROM outbox WHERE state = 'ready'
         ORDER BY lane, owner, org, priority DESC, job, outbox_id LIMIT $1) AS o
  LEFT JOIN lanes AS l USING (lane)
 ORDER BY o.lane, o.owner, o.org, o.priority DESC, o.job, o.outbox_id

-- name: sent_queues
-- The queues that have sent rows, by a loose index scan.
WITH RECURSIVE queues AS (
    (SELECT o.lane, o.owner FROM outbox AS o WHERE o.state = 'sent' ORDER BY o.lane, o.owner LIMIT 1)
    UNION ALL
    SELECT n.lane, n.owner
      FROM queues AS q
     CROSS JOIN LATERAL (
           SELECT o.lane, o.owner FROM outbox AS o
            WHERE o.state = 'sent' AND (o.lane, o.owner) > (q.lane, q.owner)
            ORDER BY o.lane, o.owner LIMIT 1
     ) AS n
)
SELECT lane, owner FROM queues

-- name: ready_orgs
-- At most $4 orgs with ready rows in queue ($1, $2), from org $3 on, then from the beginning, with their weights.
WITH RECURSIVE later AS (
    (SELECT 1 AS turn, o.org FROM outbox AS o
      WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org >= $3 ORDER BY o.org LIMIT 1)
    UNION ALL
    SELECT l.turn + 1, n.org
      FROM later AS l
     CROSS JOIN LATERAL (
           SELECT o.org FROM outbox AS o
            WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org > l.org ORDER BY o.org LIMIT 1
     ) AS n
     WHERE l.turn < $4
),
earlier AS (
    (SELECT 1 AS turn, o.org FROM outbox AS o
      WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org < $3 ORDER BY o.org LIMIT 1)
    UNION ALL
    SELECT e.turn + 1, n.org
      FROM earlier AS e
     CROSS JOIN LATERAL (
           SELECT o.org FROM outbox AS o
            WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org > e.org AND o.org < $3
            ORDER BY o.org LIMIT 1
     ) AS n
     WHERE e.turn < $4
),
in_turn AS (
    SELECT part, turn, org
      FROM (SELECT 0 AS part, turn, org FROM later UNION ALL SELECT 1, turn, org FROM earlier) AS parts
     ORDER BY part, turn LIMIT $4
)
SELECT t.org, coalesce(o.weight, 1) AS weight FROM in_turn AS t LEFT JOIN orgs AS o USING (org) ORDER BY t.part, t.turn

-- name: pick_ready
-- Of shard $3 of queue ($1, $2), at most $5 ready rows of each of the orgs $4: by priority, then its jobs in turn,
-- those after job $6 first, then age. `heaps` are the first $7 pairs of priority and job that an org has rows of.
SELECT r.outbox_id, t.org, r.run_id, r.step, r.traceparent, r.job, r.capacity
  FROM unnest($4::text[], $5::integer[], $6::integer[]) WITH ORDINALITY AS t (org, share, after, turn)
 CROSS JOIN LATERAL (
       WITH RECURSIVE heaps AS (
           SELECT 0 AS place, 32768 AS priority, 0 AS job, true AS wrapped -- before all there are
           UNION ALL
           SELECT h.place + 1, n.priority, n.job, n.wrapped
             FROM heaps AS h
            CROSS JOIN LATERAL (
                  (SELECT h.priority, o.job, h.wrapped FROM outbox AS o
                    WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                      AND o.priority = h.priority AND o.job > h.job
                      AND o.job <= CASE WHEN h.wrapped THEN t.after ELSE 2147483647 END
                    ORDER BY o.job LIMIT 1)
                  UNION ALL
                  (SELECT h.priority, o.job, true FROM outbox AS o
                    WHERE NOT h.wrapped AND o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                      AND o.priority = h.priority AND o.job <= t.after
                    ORDER BY o.job LIMIT 1)
                  UNION ALL
                  (SELECT p.priority, j.job, j.wrapped
                     FROM (SELECT o.priority FROM outbox AS o
                            WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                              AND o.priority < h.priority
                            ORDER BY o.priority DESC LIMIT 1) AS p
                    CROSS JOIN LATERAL (
                          (SELECT o.job, false AS wrapped FROM outbox AS o
                            WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                              AND o.priority = p.priority AND o.job > t.after
                            ORDER BY o.job LIMIT 1)
                          UNION ALL
                          (SELECT o.job, true FROM outbox AS o
                            WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                              AND o.priority = p.priority
                            ORDER BY o.job LIMIT 1)
                          LIMIT 1
                    ) AS j)
                  LIMIT 1
            ) AS n
            WHERE h.place < $7
       )
       SELECT m.*, h.priority, h.job, h.place
         FROM heaps AS h
        CROSS JOIN LATERAL (
              SELECT o.outbox_id, o.run_id, o.step, o.traceparent, o.connection IS NOT NULL AS capacity,
                     row_number() OVER (ORDER BY o.outbox_id) AS round
                FROM outbox AS o
               WHERE o.state = 'ready' AND o.lane = $1 AND o.owner = $2 AND o.org = t.org
                 AND o.priority = h.priority AND o.job = h.job
                 AND o.slot % (SELECT l.shards FROM lanes AS l WHERE l.lane = $1) = $3
               ORDER BY o.outbox_id LIMIT t.share
        ) AS m
        WHERE h.place > 0
        ORDER BY h.priority DESC, m.round, h.place
        LIMIT t.share
 ) AS r
 ORDER BY t.turn, r.priority DESC, r.round, r.place

-- name: mark_sent
-- Marks rows $1 as sent with entries $2, where they are still ready; a retry's row has another id.
-- Neither joins nor, by its state as text, an index of ready rows: no plan of it reads more than rows $1.
WITH still AS (
    SELECT o.outbox_id FROM outbox AS o
     WHERE o.outbox_id = ANY ($1::bigint[]) AND o.state::text = 'ready'
     ORDER BY o.outbox_id FOR UPDATE SKIP LOCKED
)
UPDATE outbox AS o
   SET state = 'sent', sent_at = clock_timestamp(),
       entry_id = (SELECT jsonb_object($1::bigint[]::text[], $2::text[])) ->> o.outbox_id::text
 WHERE o.outbox_id = ANY (ARRAY(SELECT outbox_id FROM still))
RETURNING o.outbox_id

-- name: sent_rows
-- The next $5 sent rows after id $4 in shard $3 of queue ($1, $2).
SELECT o.outbox_id, o.run_id, o.step, o.entry_id
  FROM outbox AS o
 WHERE o.state = 'sent' AND o.lane = $1 AND o.owner = $2 AND o.outbox_id > $4
   AND o.slot % (SELECT l.shards FROM lanes AS l WHERE l.lane = $1) = $3
 ORDER BY o.outbox_id LIMIT $5

-- name: ready_again
-- Makes sent rows $1 ready, where they still carry the entries $2 that were found gone; planned as `mark_sent` is.
WITH still AS (
    SELECT o.outbox_id FROM outbox AS o
     WHERE o.outbox_id = ANY ($1::bigint[]) AND o.state::text = 'sent'
       AND o.entry_id = (SELECT jsonb_object($1::bigint[]::text[], $2::text[])) ->> o.outbox_id::text
     ORDER BY o.outbox_id FOR UPDATE SKIP LOCKED
)
UPDATE outbox AS o SET state = 'ready', sent_at = NULL, entry_id = NULL
 WHERE o.outbox_id = ANY (ARRAY(SELECT outbox_id FROM still))
RETURNING o.outbox_id

-- name: oldest_ready
-- Seconds since the oldest ready row of each queue was made, by a loose index scan over orgs, priorities and jobs.
WITH RECURSIVE firsts AS (
    (SELECT o.lane, o.owner, o.org, o.priority, o.job, o.created_at FROM outbox AS o
      WHERE o.state = 'ready' ORDER BY o.lane, o.owner, o.org, o.priority DESC, o.job, o.outbox_id LIMIT 1)
    UNION ALL
    SELECT n.* FROM firsts AS f
     CROSS JOIN LATERAL (
           (SELECT o.lane, o.owner, o.org, o.priority, o.job, o.created_at FROM outbox AS o
             WHERE o.state = 'ready' AND o.lane = f.lane AND o.owner = f.owner AND o.org = f.org
               AND o.priority = f.priority AND o.job > f.job
             ORDER BY o.job, o.outbox_id LIMIT 1)
           UNION ALL
           (SELECT o.lane, o.owner, o.org, o.priority, o.job, o.created_at FROM outbox AS o
             WHERE o.state = 'ready' AND o.lane = f.lane AND o.owner = f.owner AND o.org = f.org
               AND o.priority < f.priority
             ORDER BY o.priority DESC, o.job, o.outbox_id LIMIT 1)
           UNION ALL
           (SELECT o.lane, o.owner, o.org, o.priority, o.job, o.created_at FROM outbox AS o
             WHERE o.state = 'ready' AND (o.lane, o.owner, o.org) > (f.lane, f.owner, f.org)
             ORDER BY o.lane, o.owner, o.org, o.priority DESC, o.job, o.outbox_id LIMIT 1)
           LIMIT 1
     ) AS n
)
SELECT lane, owner, extract(epoch FROM clock_timestamp() - min(created_at))::float8 AS seconds
  FROM firsts GROUP BY lane, owner

-- name: backlog
-- How many steps wait, and how many run, in each of the queues ($1, $2), counted up to $3 of each state.
SELECT (SELECT count(*) FROM (SELECT FROM outbox AS o
                               WHERE o.state = 'ready' AND o.lane = q.lane AND o.owner = q.owner LIMIT $3) AS ready)
     + (SELECT count(*) FROM (SELECT FROM outbox AS o
                               WHERE o.state = 'sent' AND o.lane = q.lane AND o.owner = q.owner LIMIT $3) AS sent)
       AS waiting,
       (SELECT count(*) FROM (SELECT FROM steps AS s
                               WHERE s.status = 'running' AND s.lane = q.lane AND s.owner = q.owner LIMIT $3) AS running)
       AS running
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS q (lane, owner, place)
 ORDER BY q.place

-- name: oldest
-- Seconds since the oldest row of the whole outbox was made; null if it is empty.
SELECT extract(epoch FROM clock_timestamp() - (SELECT o.created_at FROM outbox AS o ORDER BY o.outbox_id LIMIT 1))::float8
