-- Runs that a person pauses or retries, steps parked for a cause, and dead letters.

ALTER TABLE runs
    ADD COLUMN paused        boolean NOT NULL DEFAULT false, -- nothing of it begins until somebody resumes it
    ADD COLUMN pauses        integer NOT NULL DEFAULT 0, -- pauses and resumes so far: the generation of that cause
    ADD COLUMN dead_lettered boolean NOT NULL DEFAULT false, -- it has a row in dead_letters
    ADD COLUMN recounted     integer NOT NULL DEFAULT 0; -- ended steps that retries had decided again

ALTER TABLE steps
    ADD COLUMN undecided         boolean NOT NULL DEFAULT false, -- a retry has its node decided again
    ADD COLUMN parked_on         text, -- the cause, such as `pause`; null: not parked
    ADD COLUMN parked_generation integer, -- the cause's, when the step was parked
    ADD COLUMN parked_from       step_status, -- the state it comes back to
    ADD CONSTRAINT steps_parked_for_a_cause CHECK (
        (status = 'parked') = (parked_on IS NOT NULL)
        AND (parked_on IS NULL) = (parked_generation IS NULL) AND (parked_on IS NULL) = (parked_from IS NULL)
    );

-- Runs that ended failed because a step failed for good; removed by a retry or by a person.
CREATE TABLE dead_letters (
    run_id           uuid        NOT NULL,
    org              text        NOT NULL,
    workflow         text        NOT NULL,
    workflow_version integer     NOT NULL,
    node             text        NOT NULL,
    cause            text        NOT NULL,
    code             text        NOT NULL, -- of the error
    error            bytea       NOT NULL,
    created_at       timestamptz NOT NULL,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (run_id),
    CONSTRAINT dead_letters_cause_known CHECK (cause IN ('retries', 'poison', 'permanent'))
) PARTITION BY RANGE (run_id);
CREATE INDEX dead_letters_by_org ON dead_letters (org, run_id);
CREATE INDEX dead_letters_by_workflow ON dead_letters (org, workflow, run_id);
CREATE INDEX dead_letters_by_code ON dead_letters (org, code, run_id);
SELECT ensure_month(month) FROM months WHERE NOT closed;
GRANT SELECT ON dead_letters TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, DELETE ON dead_letters TO perdure_coordinator;
GRANT UPDATE (closed) ON months TO perdure_coordinator; -- only to lock a row that a retry relies on

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended', 'leave_children',
            'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen'
        ))
    );

-- What a step is parked on that still stands. One row for each.
CREATE OR REPLACE VIEW standing_causes AS
SELECT s.run_id, s.step
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.parked_on = 'pause'
   AND (r.paused OR EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.kind = 'unpark'));

-- A timer that is held, so that its next try is never, is a way forward only while the run is paused.
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
   );
