-- Whom work is about, as a keyed hash, and the lists of whom it must not be about.

CREATE TABLE run_subjects (
    run_id       uuid    NOT NULL,
    step         integer NOT NULL, -- 0: all that the run does
    org          text    NOT NULL,
    subject_hash bytea   NOT NULL, -- under a key that the database does not know
    purpose      text    NOT NULL, -- empty: none is named
    CONSTRAINT run_subjects_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT run_subjects_hash_length CHECK (octet_length(subject_hash) = 32)
) PARTITION BY RANGE (run_id);

CREATE INDEX run_subjects_by_subject ON run_subjects (org, subject_hash, run_id);

CREATE TABLE suppressions (
    org          text        NOT NULL,
    subject_hash bytea       NOT NULL,
    purpose      text        NOT NULL, -- *: every
    reason       text        NOT NULL,
    asked_by     text        NOT NULL,
    created_at   timestamptz NOT NULL,
    CONSTRAINT suppressions_pkey PRIMARY KEY (org, subject_hash, purpose),
    CONSTRAINT suppressions_hash_length CHECK (octet_length(subject_hash) = 32),
    CONSTRAINT suppressions_purpose_plain CHECK (purpose ~ '^([*]|[a-z][a-z0-9_.-]{0,62})$')
);

-- The place of a subject among advisory locks.
CREATE FUNCTION subject_lock(subject_hash bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT
RETURN ('x' || encode(substr(subject_hash, 1, 8), 'hex'))::bit(64)::bigint;

-- A call that a list forbade has a record although it was never made.
ALTER TABLE effects DROP CONSTRAINT effects_calls_positive;
ALTER TABLE effects ADD CONSTRAINT effects_calls_counted CHECK (calls > 0 OR (calls = 0 AND status = 'refused'));

SELECT ensure_month(month) FROM months WHERE NOT closed;

GRANT SELECT, INSERT, UPDATE ON run_subjects TO perdure_coordinator;
GRANT SELECT, INSERT, DELETE ON suppressions TO perdure_coordinator;
GRANT SELECT ON run_subjects, suppressions TO perdure_ingest;
