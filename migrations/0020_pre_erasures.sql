-- Erasures: whose payloads are to go, by the hash of the subject, and how far each came.

CREATE TABLE erasures (
    erasure_id   uuid        NOT NULL,
    org          text        NOT NULL,
    subject_hash bytea       NOT NULL, -- kept for good, so that a restored database can be cleaned again
    reason       text        NOT NULL,
    asked_by     text        NOT NULL,
    cursor       uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the last run that got its event
    created_at   timestamptz NOT NULL,
    all_sent_at  timestamptz, -- when the last run got its event
    CONSTRAINT erasures_pkey PRIMARY KEY (erasure_id),
    CONSTRAINT erasures_hash_length CHECK (octet_length(subject_hash) = 32)
);

CREATE INDEX erasures_by_subject ON erasures (org, subject_hash);
CREATE INDEX erasures_by_org ON erasures (org, erasure_id);

CREATE TABLE erasure_runs (
    erasure_id uuid NOT NULL,
    run_id     uuid NOT NULL,
    ended_at   timestamptz, -- when nothing of the run was left to erase
    CONSTRAINT erasure_runs_pkey PRIMARY KEY (erasure_id, run_id)
);

CREATE INDEX erasure_runs_pending ON erasure_runs (erasure_id) WHERE ended_at IS NULL;

CREATE TABLE erasure_counts (
    erasure_id uuid    NOT NULL,
    run_id     uuid    NOT NULL,
    kind       text    NOT NULL,
    erased     integer NOT NULL, -- rows
    CONSTRAINT erasure_counts_pkey PRIMARY KEY (erasure_id, run_id, kind)
);

-- What the event carries that begins the erasure of a run.
CREATE FUNCTION erase_details(erasure_id uuid) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT
RETURN convert_to('{"erasure": "' || erasure_id || '", "part": "steps", "after": ""}', 'UTF8');

ALTER TABLE runs ADD COLUMN erased boolean NOT NULL DEFAULT false;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay',
            'reopen', 'compensate', 'migrate', 'erase'
        ))
    );

GRANT SELECT, INSERT, UPDATE ON erasures, erasure_runs, erasure_counts TO perdure_coordinator;
GRANT SELECT ON erasures, erasure_runs, erasure_counts TO perdure_ingest;
GRANT DELETE ON run_subjects TO perdure_coordinator;

-- What is written once changes for runs alone that are marked as erased, and only so. Each returns how many rows it found.
CREATE FUNCTION erase_tries(erased_run uuid, after integer, upto integer, marker bytea) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
    WITH erased AS (
        UPDATE attempts AS a SET error = marker
          FROM runs AS r
         WHERE r.run_id = erased_run AND r.erased AND a.run_id = erased_run
           AND a.step > after AND a.step <= upto AND a.error IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM erased
$$;

CREATE FUNCTION erase_lines(erased_run uuid, after integer, upto integer, marker bytea) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
    WITH erased AS (
        UPDATE history AS h SET details = marker
          FROM runs AS r
         WHERE r.run_id = erased_run AND r.erased AND h.run_id = erased_run
           AND h.seq > after AND h.seq <= upto AND h.details IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM erased
$$;

CREATE FUNCTION erase_tags(erased_run uuid) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
    WITH erased AS (
        DELETE FROM run_tags AS t USING runs AS r
         WHERE r.run_id = erased_run AND r.erased AND t.run_id = erased_run
        RETURNING 1
    )
    SELECT count(*) FROM erased
$$;

REVOKE EXECUTE ON FUNCTION erase_tries(uuid, integer, integer, bytea) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION erase_lines(uuid, integer, integer, bytea) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION erase_tags(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tries(uuid, integer, integer, bytea) TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION erase_lines(uuid, integer, integer, bytea) TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION erase_tags(uuid) TO perdure_coordinator;
