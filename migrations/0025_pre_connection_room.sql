-- The room at connections, asked of single rows however many steps run.

-- How many more steps may ask for a place at each connection with blocked rows, as things stood `ago`. What only a
-- person can change lets all of them ask, so that they are parked.
CREATE OR REPLACE FUNCTION connection_room(ago interval) RETURNS TABLE (org text, connection text, room integer)
LANGUAGE sql STABLE ROWS 10 AS $$
    WITH RECURSIVE wanted AS (
        (SELECT o.org, o.connection FROM outbox AS o
          WHERE o.state = 'blocked' AND o.org > '' ORDER BY o.org, o.connection LIMIT 1)
        UNION ALL
        SELECT n.org, n.connection
          FROM wanted AS w
         CROSS JOIN LATERAL (
               SELECT o.org, o.connection FROM outbox AS o
                WHERE o.state = 'blocked' AND (o.org, o.connection) > (w.org, w.connection)
                ORDER BY o.org, o.connection LIMIT 1
         ) AS n
    )
    SELECT w.org, w.connection,
           CASE
               WHEN c.name IS NULL OR c.disabled OR c.refused = c.generation THEN 500
               WHEN c.open_until > t.at THEN 0
               WHEN c.open_until IS NOT NULL THEN
                   CASE WHEN c.probe_lease = (
                                 SELECT CASE WHEN s.status = 'running' THEN s.lease_id END
                                   FROM steps AS s WHERE s.run_id = c.probe_run AND s.step = c.probe_step
                             )
                        THEN 0 ELSE 1 END - asking.rows
               ELSE least(
                   CASE WHEN c.slots IS NULL THEN 500
                        WHEN EXISTS (
                            SELECT FROM connection_slots AS s
                             WHERE s.org = c.org AND s.connection = c.name AND s.slot > c.slots AND s.lease_id IS NOT NULL
                        ) THEN 0
                        ELSE (
                            SELECT count(*) FROM connection_slots AS s
                             WHERE s.org = c.org AND s.connection = c.name AND s.slot <= c.slots AND s.lease_id IS NULL
                        ) END,
                   CASE WHEN c.rate IS NULL THEN 500
                        ELSE floor(least(500, c.burst, c.tokens + c.rate * extract(epoch FROM t.at - c.filled_at)) + 1e-6)
                   END
               ) - asking.rows
           END::integer
      FROM wanted AS w
     CROSS JOIN (SELECT clock_timestamp() - ago AS at) AS t
      LEFT JOIN connections AS c ON c.org = w.org AND c.name = w.connection
     CROSS JOIN LATERAL (
           SELECT count(*) AS rows FROM outbox AS o
            WHERE o.connection IS NOT NULL AND o.state <> 'blocked' AND o.org = w.org AND o.connection = w.connection
     ) AS asking
$$;
