-- Accounts at outside providers, the places that steps hold there, and causes that steps are parked on.

CREATE TABLE connections (
    org           text             NOT NULL,
    name          text             NOT NULL,
    base_url      text             NOT NULL DEFAULT '', -- what relative addresses are relative to
    scheme        text             NOT NULL DEFAULT 'none', -- how the credentials authorise a call
    has_credentials boolean        NOT NULL DEFAULT false, -- it has a row in connection_secrets
    slots         integer, -- how many steps may run at once; null: any number
    rate          float8, -- how many may begin in a second; null: any number
    burst         float8           NOT NULL DEFAULT 1, -- how many of them at once
    tokens        float8           NOT NULL DEFAULT 1, -- what was left of the burst at filled_at
    filled_at     timestamptz      NOT NULL,
    max_failures  integer          NOT NULL DEFAULT 5, -- so many in a row open the breaker
    open_ms       integer          NOT NULL DEFAULT 30000, -- for so long, at first
    failures      integer          NOT NULL DEFAULT 0, -- in a row
    opened        integer          NOT NULL DEFAULT 0, -- how often in a row the breaker opened
    open_until    timestamptz, -- null: the breaker is closed
    probe_run     uuid, -- the one step that tries a half-open breaker
    probe_step    integer,
    probe_lease   uuid,
    disabled      boolean          NOT NULL DEFAULT false,
    refused       integer          NOT NULL DEFAULT 0, -- the generation of the credentials that were refused
    generation    integer          NOT NULL DEFAULT 1, -- as that of its cause
    probe_path    text, -- what a health probe asks for; null: nothing
    created_at    timestamptz      NOT NULL,
    changed_at    timestamptz      NOT NULL,
    CONSTRAINT connections_pkey PRIMARY KEY (org, name),
    CONSTRAINT connections_name_plain CHECK (name ~ '^[a-z][a-z0-9_.-]{0,99}$'),
    CONSTRAINT connections_scheme_known CHECK (scheme IN ('none', 'bearer', 'basic', 'header', 'fields')),
    CONSTRAINT connections_positive CHECK (
        slots >= 1 AND slots <= 10000 AND rate > 0 AND burst >= 1 AND max_failures > 0 AND open_ms > 0
    ),
    CONSTRAINT connections_probe_whole CHECK (
        (probe_lease IS NULL) = (probe_run IS NULL) AND (probe_lease IS NULL) = (probe_step IS NULL)
    )
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

-- Credentials, which the coordinator alone may read.
CREATE TABLE connection_secrets (
    org        text  NOT NULL,
    connection text  NOT NULL,
    key_id     text  NOT NULL, -- the key that sealed them
    sealed     bytea NOT NULL, -- nonce and ciphertext, bound to the org and the name
    CONSTRAINT connection_secrets_pkey PRIMARY KEY (org, connection),
    CONSTRAINT connection_secrets_of FOREIGN KEY (org, connection) REFERENCES connections (org, name) ON DELETE CASCADE
);

-- A place is one row: free while no lease holds it.
CREATE TABLE connection_slots (
    org        text    NOT NULL,
    connection text    NOT NULL,
    slot       integer NOT NULL,
    run_id     uuid,
    step       integer,
    lease_id   uuid,
    CONSTRAINT connection_slots_pkey PRIMARY KEY (org, connection, slot),
    CONSTRAINT connection_slots_of FOREIGN KEY (org, connection) REFERENCES connections (org, name) ON DELETE CASCADE,
    CONSTRAINT connection_slots_held_whole CHECK (
        (lease_id IS NULL) = (run_id IS NULL) AND (lease_id IS NULL) = (step IS NULL)
    )
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX connection_slots_held ON connection_slots (run_id, step) WHERE lease_id IS NOT NULL;

-- One row for each cause that a person can act on; who raises its generation locks no run (p8).
CREATE TABLE causes (
    org        text    NOT NULL,
    cause      text    NOT NULL,
    cause_id   uuid    NOT NULL DEFAULT gen_random_uuid(), -- the timer that brings back what was parked hangs on it
    generation integer NOT NULL DEFAULT 1,
    CONSTRAINT causes_pkey PRIMARY KEY (org, cause),
    CONSTRAINT causes_id_unique UNIQUE (cause_id)
);

-- The connection of a step, where an expression gave it.
CREATE TABLE step_connections (
    run_id     uuid    NOT NULL,
    step       integer NOT NULL,
    org        text    NOT NULL,
    connection text    NOT NULL,
    CONSTRAINT step_connections_pkey PRIMARY KEY (run_id, step)
) PARTITION BY RANGE (run_id);
SELECT ensure_month(month) FROM months WHERE NOT closed;

CREATE INDEX steps_parked_on ON steps (org, parked_on, run_id) WHERE parked_on IS NOT NULL;
DO $$ -- the indexes of the months that there are, named after the parent's, as ensure_month names them
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, whole.relname || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS whole ON whole.oid = i.inhparent AND whole.relname = 'steps_parked_on'
          JOIN pg_class AS part ON part.oid = i.inhrelid
          JOIN pg_index AS x ON x.indexrelid = part.oid
          JOIN pg_class AS month ON month.oid = x.indrelid
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
    END LOOP;
END
$$;

ALTER TABLE outbox
    ADD COLUMN connection text, -- what the step needs a place at; null: nothing
    ADD COLUMN blocked_at timestamptz; -- when there was no place for it last
DROP INDEX outbox_blocked;
CREATE INDEX outbox_blocked ON outbox (org, connection, priority DESC, outbox_id) WHERE state = 'blocked';
CREATE INDEX outbox_by_connection ON outbox (org, connection) WHERE connection IS NOT NULL AND state <> 'blocked';

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase', 'cause_gone'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase', 'cause_gone'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay',
            'reopen', 'compensate', 'migrate', 'erase', 'cause_gone'
        ))
    );

-- How many more steps may ask for a place at each connection with blocked rows, as things stood `ago`. What only a
-- person can change lets all of them ask, so that they are parked.
CREATE FUNCTION connection_room(ago interval) RETURNS TABLE (org text, connection text, room integer)
LANGUAGE sql STABLE ROWS 10 AS $$
    WITH RECURSIVE wanted AS (
        (SELECT o.org, o.connection FROM outbox AS o WHERE o.state = 'blocked' ORDER BY o.org, o.connection LIMIT 1)
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
                   CASE WHEN c.probe_lease IS NOT NULL AND EXISTS (
                                 SELECT FROM steps AS s
                                  WHERE s.run_id = c.probe_run AND s.step = c.probe_step AND s.status = 'running'
                                    AND s.lease_id = c.probe_lease
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

-- A parked step goes on by the event that the end of its cause sends, or by the one that sends those.
CREATE OR REPLACE VIEW standing_causes AS
SELECT s.run_id, s.step
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.parked_on = 'pause'
   AND (r.paused OR EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.kind = 'unpark'))
UNION ALL
SELECT s.run_id, s.step
  FROM steps AS s
 WHERE s.parked_on = 'timer'
   AND EXISTS (
       SELECT FROM timers AS t
        WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind IN ('retry', 'wait') AND t.next_try = 'infinity'
   )
UNION ALL
SELECT s.run_id, s.step
  FROM steps AS s JOIN causes AS c ON c.org = s.org AND c.cause = s.parked_on
 WHERE c.generation = s.parked_generation
    OR EXISTS (
        SELECT FROM timers AS t
         WHERE t.run_id IN (s.run_id, c.cause_id) AND t.kind = 'cause_gone' AND t.next_try < 'infinity'
    );

-- A blocked row is no way forward once its connection has had room for a while.
CREATE OR REPLACE VIEW no_way_forward AS
SELECT s.org, s.run_id, s.step, s.status::text AS status,
       CASE WHEN o.state IS NULL THEN 'queued without an outbox row' ELSE 'blocked for a cause that does not stand' END
           AS missing
  FROM steps AS s JOIN runs AS r USING (run_id) LEFT JOIN outbox AS o ON o.run_id = s.run_id AND o.step = s.step
 WHERE s.status = 'queued' AND r.status = 'running' AND (o.state IS NULL OR o.state = 'blocked')
   AND (
       o.state IS NULL OR o.connection IS NULL
       OR (
           coalesce(o.blocked_at < clock_timestamp() - interval '30 s', true)
           AND (o.org, o.connection) IN (
               SELECT c.org, c.connection FROM connection_room(interval '30 s') AS c WHERE c.room > 0
           )
       )
   )
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'running under a lease that ended long ago'
  FROM steps AS s JOIN runs AS r USING (run_id) JOIN lanes AS l ON l.lane = s.lane
 WHERE s.status = 'running' AND r.status = 'running'
   AND s.lease_expires_at < clock_timestamp() - l.lease_ms * interval '1 ms' - interval '30 s'
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'backing off without a retry timer'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'backing_off' AND r.status = 'running'
   AND NOT EXISTS (
       SELECT FROM timers AS t
        WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'retry' AND t.next_try < 'infinity'
   )
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'waiting for nothing that will come'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'waiting' AND r.status = 'running' AND NOT r.paused
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
 WHERE c.status = 'running' AND r.status = 'running' AND NOT r.paused AND o.status = 'waiting' AND b.ending IS NULL
   AND NOT EXISTS (
       SELECT FROM steps AS s
        WHERE s.run_id = c.run_id AND s.scope = c.scope AND s.generation = c.generation
          AND s.status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   )
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = c.run_id AND t.internal AND t.next_try < 'infinity')
UNION ALL
SELECT r.org, r.run_id, NULL, r.status::text, 'running with no unfinished step and no internal event'
  FROM runs AS r
 WHERE r.status = 'running' AND NOT r.paused
   AND NOT EXISTS (
       SELECT FROM steps AS s
        WHERE s.run_id = r.run_id AND s.status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   )
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = r.run_id AND t.internal AND t.next_try < 'infinity')
   AND NOT EXISTS (
       SELECT FROM children AS c JOIN runs AS child ON child.run_id = c.child_run
        WHERE r.awaited_children > 0 AND c.run_id = r.run_id AND c.on_parent_end = 'wait' AND child.status = 'running'
       OFFSET 0
   )
   AND NOT EXISTS (SELECT FROM places_in_turn AS p WHERE p.run_id = r.run_id OFFSET 0);

GRANT SELECT ON connections, connection_slots, causes, step_connections
   TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, UPDATE, DELETE ON connections TO perdure_coordinator;
GRANT SELECT, INSERT, UPDATE, DELETE ON connection_secrets TO perdure_coordinator;
GRANT INSERT, UPDATE ON connection_slots, causes TO perdure_coordinator;
GRANT INSERT, UPDATE ON step_connections TO perdure_coordinator;
REVOKE EXECUTE ON FUNCTION connection_room(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION connection_room(interval)
   TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
