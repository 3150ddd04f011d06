-- The ledger of effects: calls begun by themselves, each under a lease and a token of its own (protocol p4).

ALTER TYPE effect_status ADD VALUE 'given_up';

ALTER TABLE effects
    ADD COLUMN token            uuid, -- of the latest call or look-up; null: it rides on its step's lease
    ADD COLUMN lease_expires_at timestamptz, -- of the call in flight; it outlasts the longest that this may take
    ADD COLUMN digest           bytea, -- of the request
    ADD COLUMN keep             float8, -- seconds for which the provider keeps the key, from begun_at; null: not said
    ADD COLUMN can_look_up      boolean NOT NULL DEFAULT false,
    ADD COLUMN lookups          integer NOT NULL DEFAULT 0, -- since the latest call
    ADD COLUMN epoch            integer NOT NULL DEFAULT 0, -- in which it was begun
    ADD COLUMN result           bytea, -- what it came to, JSON
    ADD COLUMN note             text    NOT NULL DEFAULT '', -- what the other side said
    ADD COLUMN waiter           integer; -- the step that waits for what becomes of it
CREATE INDEX effects_begun ON effects (run_id, step) WHERE token IS NOT NULL;
DO $$ -- the indexes of the months that there are, named after the parent's, as ensure_month names them
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, whole.relname || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS whole ON whole.oid = i.inhparent AND whole.relname = 'effects_begun'
          JOIN pg_class AS part ON part.oid = i.inhrelid
          JOIN pg_index AS x ON x.indexrelid = part.oid
          JOIN pg_class AS month ON month.oid = x.indrelid
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
    END LOOP;
END
$$;

ALTER TABLE runs
    ADD COLUMN has_effects boolean NOT NULL DEFAULT false; -- steps of it have begun some that do not ride

-- What people have decided about effects.
CREATE TABLE effect_decisions (
    run_id     uuid        NOT NULL,
    key        text        NOT NULL,
    decided_at timestamptz NOT NULL,
    org        text        NOT NULL,
    decision   text        NOT NULL,
    actor      text        NOT NULL,
    reason     text        NOT NULL,
    CONSTRAINT effect_decisions_pkey PRIMARY KEY (run_id, key, decided_at),
    CONSTRAINT effect_decisions_known CHECK (decision IN ('settled', 'refused', 'given_up'))
) PARTITION BY RANGE (run_id);
SELECT ensure_month(month) FROM months WHERE NOT closed;
GRANT SELECT ON effect_decisions TO perdure_coordinator, perdure_ingest;
GRANT INSERT, UPDATE (reason) ON effect_decisions TO perdure_coordinator; -- an erasure empties it

-- The databases that this one was: after a restore or a failover that lost something, calls that no key protects wait
-- until an operator begins the next epoch, or says that nothing was lost.
CREATE TABLE epochs (
    epoch     integer     NOT NULL,
    begun_at  timestamptz NOT NULL,
    system_id bigint      NOT NULL,
    timeline  bigint      NOT NULL,
    CONSTRAINT epochs_pkey PRIMARY KEY (epoch)
);
-- The timeline that is written now; that of the last checkpoint would lag behind a failover.
CREATE FUNCTION database_timeline() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$$;
INSERT INTO epochs (epoch, begun_at, system_id, timeline)
SELECT 0, '-infinity', system_identifier, database_timeline() FROM pg_control_system();
GRANT SELECT ON epochs TO perdure_coordinator, perdure_ingest, perdure_sweeper;
GRANT INSERT, UPDATE (system_id, timeline) ON epochs TO perdure_coordinator;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'effect_wait', 'effect_lease', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps',
            'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit',
            'park', 'unpark', 'replay', 'reopen', 'compensate', 'migrate', 'erase', 'cause_gone', 'new_period'
        )
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'effect_lease', 'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park',
            'unpark', 'replay', 'reopen', 'compensate', 'migrate', 'erase', 'cause_gone', 'new_period'
        ))
    );

-- R10: a step that waits out another's call does so with its timer.
CREATE OR REPLACE VIEW ways_of_waiting AS
SELECT t.run_id, t.step FROM timers AS t
 WHERE t.kind IN ('wait', 'effect_wait', 'fan_out', 'stop_inside', 'start_child', 'child_ended')
UNION ALL
SELECT s.run_id, s.owner FROM scopes AS s WHERE s.status = 'running'
UNION ALL
SELECT c.run_id, c.step FROM children AS c JOIN runs AS child ON child.run_id = c.child_run
 WHERE child.status = 'running'
UNION ALL
SELECT w.run_id, w.step FROM signal_waits AS w;

-- What a step is parked on that still stands. One row for each.
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
    )
UNION ALL
SELECT s.run_id, s.step
  FROM steps AS s
 WHERE s.parked_on = 'review'
   AND EXISTS (
       SELECT FROM effects AS e
        WHERE e.run_id = s.run_id AND e.status = 'needs_review'
          AND s.step = CASE WHEN e.token IS NULL THEN e.step ELSE e.waiter END
   );
