-- Sub-graphs: a row for each scope (an item of a `for_each`, a pass of a `repeat`, the inside of a `group`), and
-- counters on the step that holds them, so that an event costs the same however many there are.

CREATE TYPE scope_status AS ENUM ('pending', 'running', 'completed', 'failed');

CREATE TABLE scopes (
    run_id      uuid         NOT NULL,
    scope       text         NOT NULL, -- its path in the run, such as batch[17].poll[2]
    generation  integer      NOT NULL, -- raised when the whole is tried again
    owner       integer      NOT NULL, -- the step that it belongs to
    index       integer      NOT NULL, -- its place among that one's scopes, from 0
    status      scope_status NOT NULL,
    ended_nodes integer      NOT NULL DEFAULT 0,
    item        bytea,
    carry       bytea,
    output      bytea,
    error       bytea,
    CONSTRAINT scopes_pkey PRIMARY KEY (run_id, scope, generation),
    CONSTRAINT scopes_output_when_completed CHECK ((output IS NOT NULL) = (status = 'completed')),
    CONSTRAINT scopes_error_when_failed CHECK (status <> 'failed' OR error IS NOT NULL)
) PARTITION BY RANGE (run_id);
-- Scopes are looked up by their paths alone: an index by owner and place would lead plans astray while a month is new.
CREATE INDEX scopes_running ON scopes (run_id, owner) WHERE status = 'running';

CREATE TABLE blocks (
    run_id     uuid    NOT NULL,
    step       integer NOT NULL,
    generation integer NOT NULL, -- of its scopes
    total      integer, -- how many scopes there will be at most; null: nobody knows
    at_once    integer NOT NULL,
    made       integer NOT NULL DEFAULT 0,
    begun      integer NOT NULL DEFAULT 0,
    ended      integer NOT NULL DEFAULT 0,
    failed     integer NOT NULL DEFAULT 0,
    ending     text, -- how it ends once all in it has, because it stops before its time
    error      bytea,
    CONSTRAINT blocks_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT blocks_ending_known CHECK (ending IN ('cancel', 'fail', 'complete')),
    CONSTRAINT blocks_counts_in_order CHECK (0 <= failed AND failed <= ended AND ended <= begun AND begun <= made)
) PARTITION BY RANGE (run_id);

ALTER TABLE runs
    ADD COLUMN inner_ended      integer NOT NULL DEFAULT 0, -- steps below the top scope that ended
    ADD COLUMN scope_generation integer NOT NULL DEFAULT 0; -- the newest that a try of a whole was given

ALTER TABLE steps DROP CONSTRAINT steps_queue_named; -- a whole that backs off has no queue
ALTER TABLE steps
    ADD CONSTRAINT steps_queue_named CHECK (status NOT IN ('queued', 'running') OR (lane IS NOT NULL AND owner IS NOT NULL));

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN ('retry', 'wait', 'timeout', 'end_steps', 'advance', 'fan_out', 'stop_inside')
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN ('end_steps', 'advance', 'fan_out', 'stop_inside'))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK ((step IS NULL) = (kind IN ('end_steps', 'advance')));

GRANT SELECT ON scopes, blocks TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, UPDATE ON scopes, blocks TO perdure_coordinator;

-- Deletes ended scopes of loops that keep few passes, and all in them. The one way in which lines of a history go; a
-- function, because no service may delete them otherwise.
CREATE FUNCTION forget_scopes(run_ids uuid[], scopes text[]) RETURNS void LANGUAGE sql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH forgotten AS (
        SELECT run_id, scope FROM unnest(run_ids, scopes) AS u (run_id, scope)
    ), gone AS (
        DELETE FROM steps AS s USING forgotten AS f
         WHERE s.run_id = f.run_id AND (s.scope = f.scope OR starts_with(s.scope, f.scope || '.')) AND s.ended_at IS NOT NULL
        RETURNING s.run_id, s.step
    ), gone_attempts AS (
        DELETE FROM attempts AS a USING gone AS g WHERE a.run_id = g.run_id AND a.step = g.step
    ), gone_history AS (
        DELETE FROM history AS h USING gone AS g WHERE h.run_id = g.run_id AND h.step = g.step
    ), gone_blocks AS (
        DELETE FROM blocks AS b USING gone AS g WHERE b.run_id = g.run_id AND b.step = g.step
    )
    DELETE FROM scopes AS s USING forgotten AS f
     WHERE s.run_id = f.run_id AND (s.scope = f.scope OR starts_with(s.scope, f.scope || '.'))
$$;
REVOKE EXECUTE ON FUNCTION forget_scopes(uuid[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_scopes(uuid[], text[]) TO perdure_coordinator;

-- Makes the partitions of one month that are missing, of whatever tables are partitioned; says whether it made any.
-- They are made apart and attached, which waits for nobody who reads or writes the parents and makes nobody wait
-- (F107). Their indexes are named after the parent's (steps_pkey_202601), so that an error names what was broken.
CREATE OR REPLACE FUNCTION ensure_month(first_day date) RETURNS boolean LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    parent text;
    child text;
    made boolean := false;
    ending text := to_char(first_day, '_YYYYMM');
    renamed record;
    lower_bound uuid := uuid7_floor(first_day::timestamp AT TIME ZONE 'UTC');
    upper_bound uuid := uuid7_floor((first_day + interval '1 month')::timestamp AT TIME ZONE 'UTC');
BEGIN
    INSERT INTO months (month) VALUES (first_day) ON CONFLICT DO NOTHING;
    FOR parent IN
        SELECT c.relname FROM pg_partitioned_table AS p JOIN pg_class AS c ON c.oid = p.partrelid
         WHERE c.relnamespace = 'public'::regnamespace AND to_regclass(quote_ident(c.relname || ending)) IS NULL
         ORDER BY c.relname
    LOOP
        made := true;
        child := parent || ending;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
        IF parent IN ('runs', 'steps', 'scopes', 'blocks') THEN
            EXECUTE format('ALTER TABLE %I SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)', child);
        END IF;
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, lower_bound, upper_bound
        );
        FOR renamed IN
            SELECT part.relname AS old, whole.relname || ending AS new
              FROM pg_index AS x
              JOIN pg_class AS part ON part.oid = x.indexrelid
              JOIN pg_inherits AS i ON i.inhrelid = part.oid
              JOIN pg_class AS whole ON whole.oid = i.inhparent
             WHERE x.indrelid = child::regclass
        LOOP
            EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
SELECT ensure_month(month) FROM months WHERE NOT closed;

-- What a waiting step waits for that will surely come. One row for each; `no_way_forward` finds the steps without one.
CREATE VIEW ways_of_waiting AS
SELECT t.run_id, t.step FROM timers AS t WHERE t.kind IN ('wait', 'fan_out', 'stop_inside')
UNION ALL
SELECT s.run_id, s.owner FROM scopes AS s WHERE s.status = 'running';

-- What a step is parked on that still stands. One row for each; nothing parks a step yet.
CREATE VIEW standing_causes AS
SELECT s.run_id, s.step FROM steps AS s WHERE false;

-- OFFSET 0 keeps a look for a way forward a look by index for each step, whatever the tables are like (F111).
-- R10: unfinished steps, scopes and runs that have no durable way forward. Empty in a healthy engine.
DROP VIEW no_way_forward;
CREATE VIEW no_way_forward AS
SELECT s.org, s.run_id, s.step, s.status::text AS status,
       CASE WHEN o.state IS NULL THEN 'queued without an outbox row' ELSE 'blocked for a cause that does not stand' END
           AS missing
  FROM steps AS s JOIN runs AS r USING (run_id) LEFT JOIN outbox AS o ON o.run_id = s.run_id AND o.step = s.step
 WHERE s.status = 'queued' AND r.status = 'running' AND (o.state IS NULL OR o.state = 'blocked')
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'running under a lease that ended long ago'
  FROM steps AS s JOIN runs AS r USING (run_id) JOIN lanes AS l ON l.lane = s.lane
 WHERE s.status = 'running' AND r.status = 'running'
   AND s.lease_expires_at < clock_timestamp() - l.lease_ms * interval '1 ms' - interval '30 s'
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'backing off without a retry timer'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'backing_off' AND r.status = 'running'
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'retry')
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'waiting for nothing that will come'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'waiting' AND r.status = 'running'
   AND NOT EXISTS (SELECT FROM ways_of_waiting AS w WHERE w.run_id = s.run_id AND w.step = s.step OFFSET 0)
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'parked for a cause that does not stand'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'parked' AND r.status = 'running'
   AND NOT EXISTS (SELECT FROM standing_causes AS c WHERE c.run_id = s.run_id AND c.step = s.step OFFSET 0)
UNION ALL
SELECT o.org, c.run_id, o.step, o.status::text, 'waiting for a scope in which nothing moves'
  FROM scopes AS c
  JOIN runs AS r ON r.run_id = c.run_id
  JOIN steps AS o ON o.run_id = c.run_id AND o.step = c.owner
  JOIN blocks AS b ON b.run_id = c.run_id AND b.step = c.owner AND b.generation = c.generation
 WHERE c.status = 'running' AND r.status = 'running' AND o.status = 'waiting' AND b.ending IS NULL
   AND NOT EXISTS (
       SELECT FROM steps AS s
        WHERE s.run_id = c.run_id AND s.scope = c.scope AND s.generation = c.generation
          AND s.status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   )
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = c.run_id AND t.internal)
UNION ALL
SELECT r.org, r.run_id, NULL, r.status::text, 'running with no unfinished step and no internal event'
  FROM runs AS r
 WHERE r.status = 'running'
   AND NOT EXISTS (
       SELECT FROM steps AS s
        WHERE s.run_id = r.run_id AND s.status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   )
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = r.run_id AND t.internal);

GRANT SELECT ON ways_of_waiting, standing_causes, no_way_forward TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
