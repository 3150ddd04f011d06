-- Child runs: which run a `run` node started, what becomes of it when its parent ends, and the internal events by
-- which runs tell each other. No event locks two runs.

ALTER TABLE runs
    ADD COLUMN parent_run        uuid, -- the run whose `run` node started this one; null: it is no child
    ADD COLUMN parent_step       integer,
    ADD COLUMN parent_told       boolean NOT NULL DEFAULT false, -- the parent wants to know of its end
    ADD COLUMN depth             smallint NOT NULL DEFAULT 0, -- how many runs stand above it
    ADD COLUMN open_children     integer NOT NULL DEFAULT 0, -- not known to have ended, and ending with it
    ADD COLUMN awaited_children  integer NOT NULL DEFAULT 0, -- not known to have ended, and holding up its end
    ADD CONSTRAINT runs_parent_whole CHECK ((parent_run IS NULL) = (parent_step IS NULL)),
    ADD CONSTRAINT runs_children_counted CHECK (open_children >= 0 AND awaited_children >= 0);
CREATE INDEX runs_by_parent ON runs (parent_run, run_id) WHERE parent_run IS NOT NULL;
-- In months that are there already its parts are named as ensure_month names those of later ones.
DO $$
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, 'runs_by_parent' || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS part ON part.oid = i.inhrelid
          JOIN pg_index AS x ON x.indexrelid = part.oid
          JOIN pg_class AS month ON month.oid = x.indrelid
         WHERE i.inhparent = 'runs_by_parent'::regclass
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
    END LOOP;
END
$$;

CREATE TABLE children (
    run_id        uuid    NOT NULL, -- the parent
    step          integer NOT NULL,
    org           text    NOT NULL,
    workflow      text    NOT NULL,
    version       integer NOT NULL, -- as asked for until it has started, 0 for the latest
    on_parent_end text    NOT NULL,
    status        text    NOT NULL, -- in the parent's eyes
    child_run     uuid, -- null until it is known to have started
    CONSTRAINT children_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT children_rule_known CHECK (on_parent_end IN ('cancel', 'abandon', 'wait')),
    CONSTRAINT children_status_known CHECK (status IN ('starting', 'running', 'left', 'ended')),
    CONSTRAINT children_running_is_a_run CHECK (status <> 'running' OR child_run IS NOT NULL)
) PARTITION BY RANGE (run_id);
CREATE INDEX children_that_end_with_it ON children (run_id, step) WHERE status = 'running' AND on_parent_end = 'cancel';
SELECT ensure_month(month) FROM months WHERE NOT closed;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended', 'leave_children',
            'cancel_run'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN ('end_steps', 'advance', 'leave_children', 'cancel_run'))
    );

GRANT SELECT ON children TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, UPDATE ON children TO perdure_coordinator;

-- R10: the step of a `run` node waits for its child to start, to end, or to be told of.
CREATE OR REPLACE VIEW ways_of_waiting AS
SELECT t.run_id, t.step FROM timers AS t
 WHERE t.kind IN ('wait', 'fan_out', 'stop_inside', 'start_child', 'child_ended')
UNION ALL
SELECT s.run_id, s.owner FROM scopes AS s WHERE s.status = 'running'
UNION ALL
SELECT c.run_id, c.step FROM children AS c JOIN runs AS child ON child.run_id = c.child_run
 WHERE child.status = 'running';

-- And a run whose nodes have all ended may wait for a child.
CREATE OR REPLACE VIEW no_way_forward AS
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
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = r.run_id AND t.internal)
   AND NOT EXISTS (
       SELECT FROM children AS c JOIN runs AS child ON child.run_id = c.child_run
        WHERE r.awaited_children > 0 AND c.run_id = r.run_id AND c.on_parent_end = 'wait' AND child.status = 'running'
       OFFSET 0
   );
