-- Exclusive keys: of the runs of an org with one key one goes on at a time.

ALTER TABLE runs ADD COLUMN exclusive_key text; -- null: it has none

CREATE TABLE exclusive_keys (
    org    text    NOT NULL,
    key    text    NOT NULL,
    holder uuid, -- null: while the row is locked for a first holder
    told   boolean NOT NULL DEFAULT false, -- the holder was told to make way
    CONSTRAINT exclusive_keys_pkey PRIMARY KEY (org, key)
);

-- The runs that wait for a key, in the order of their places.
CREATE TABLE exclusive_waiters (
    org    text    NOT NULL,
    key    text    NOT NULL,
    place  bigint  GENERATED ALWAYS AS IDENTITY,
    run_id uuid    NOT NULL,
    told   boolean NOT NULL DEFAULT false,
    CONSTRAINT exclusive_waiters_pkey PRIMARY KEY (org, key, place),
    CONSTRAINT exclusive_waiters_one_place UNIQUE (run_id)
);

GRANT SELECT ON exclusive_keys, exclusive_waiters TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, UPDATE, DELETE ON exclusive_keys, exclusive_waiters TO perdure_coordinator;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark',
            'replay', 'reopen'
        ))
    );

-- R10: a run that has not begun goes on by its place behind a run that goes on, or that is about to hand its key over.
CREATE VIEW places_in_turn AS
SELECT w.run_id
  FROM exclusive_waiters AS w
  JOIN exclusive_keys AS k ON k.org = w.org AND k.key = w.key
  JOIN runs AS h ON h.run_id = k.holder
 WHERE h.status = 'running'
    OR EXISTS (SELECT FROM timers AS t WHERE t.run_id = h.run_id AND t.kind = 'hand_over');

DROP VIEW no_way_forward; -- made anew, after the view that it reads
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

GRANT SELECT ON places_in_turn, no_way_forward TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
