-- Runs and all that hangs on a run, range-partitioned by month on the UUIDv7 run id. Payloads (input,
-- output, error, details) are bytes that no SQL operator reads (R12).

CREATE TYPE run_status AS ENUM ('running', 'completed', 'failed', 'cancelled', 'timed_out');
CREATE TYPE step_status AS ENUM (
    'queued', 'running', 'backing_off', 'waiting', 'parked', 'completed', 'failed', 'skipped', 'cancelled'
);
CREATE TYPE effect_status AS ENUM ('in_flight', 'settled', 'refused', 'outcome_unknown', 'needs_review');

CREATE TABLE runs (
    run_id           uuid        NOT NULL,
    org              text        NOT NULL,
    workflow_id      bigint      NOT NULL,
    workflow         text        NOT NULL,
    workflow_version integer     NOT NULL,
    status           run_status  NOT NULL DEFAULT 'running',
    revision         bigint      NOT NULL DEFAULT 1, -- raised by every event (R1)
    generation       integer     NOT NULL DEFAULT 0, -- raised when the run closes; older internal events are ignored
    priority         smallint    NOT NULL DEFAULT 0,
    next_step        integer     NOT NULL DEFAULT 1, -- the number the next step gets
    ended_nodes      integer     NOT NULL DEFAULT 0, -- nodes of the top scope that ended
    next_seq         integer     NOT NULL DEFAULT 1, -- the number the next history line gets
    input            bytea       NOT NULL,
    output           bytea,
    error            bytea,
    start_key        text,
    tags             bytea       NOT NULL DEFAULT '{}', -- JSON object of text, for reading; run_tags is for finding
    traceparent      text,
    created_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    age_at           timestamptz, -- when it is too old; null: it may grow as old as it likes
    CONSTRAINT runs_pkey PRIMARY KEY (run_id),
    CONSTRAINT runs_priority_range CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT runs_ended_when_final CHECK ((status = 'running') = (ended_at IS NULL)),
    CONSTRAINT runs_output_when_completed CHECK (output IS NULL OR status = 'completed'),
    CONSTRAINT runs_start_key_length CHECK (start_key IS NULL OR length(start_key) BETWEEN 1 AND 200)
) PARTITION BY RANGE (run_id);
CREATE INDEX runs_by_org ON runs (org, run_id);
CREATE INDEX runs_by_workflow ON runs (org, workflow, run_id);
CREATE INDEX runs_unfinished ON runs (run_id) WHERE status = 'running';
CREATE INDEX runs_by_age ON runs (age_at) WHERE status = 'running' AND age_at IS NOT NULL;

CREATE TABLE run_tags (
    run_id uuid NOT NULL,
    org    text NOT NULL,
    key    text NOT NULL,
    value  text NOT NULL,
    CONSTRAINT run_tags_pkey PRIMARY KEY (run_id, key)
) PARTITION BY RANGE (run_id);
CREATE INDEX run_tags_by_value ON run_tags (org, key, value, run_id);

CREATE TABLE steps (
    run_id           uuid        NOT NULL,
    step             integer     NOT NULL,
    org              text        NOT NULL,
    scope            text        NOT NULL DEFAULT '',
    generation       integer     NOT NULL DEFAULT 0,
    node             text        NOT NULL,
    kind             text        NOT NULL,
    status           step_status NOT NULL,
    lane             text,
    owner            text, -- `shared`, or the org for its own handlers; lane and owner name the queue
    priority         smallint    NOT NULL DEFAULT 0,
    fence            integer     NOT NULL DEFAULT 0, -- acquisitions so far; the newest is the fence
    lease_id         uuid, -- of the newest acquisition; kept after it ended
    lease_expires_at timestamptz,
    try_expires_at   timestamptz, -- the try's timeout; a renewal never goes past it
    worker           text,
    failures         integer     NOT NULL DEFAULT 0,
    losses           integer     NOT NULL DEFAULT 0,
    effect_prefix    text, -- run, scope and node as they were named when the step was made; null: inline
    input            bytea,
    output           bytea,
    error            bytea,
    traceparent      text,
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz,
    CONSTRAINT steps_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT steps_one_activation UNIQUE (run_id, scope, generation, node),
    CONSTRAINT steps_running_has_lease CHECK (
        (status = 'running') = (lease_expires_at IS NOT NULL)
        AND (status <> 'running' OR (lease_id IS NOT NULL AND worker IS NOT NULL AND fence > 0))
    ),
    CONSTRAINT steps_try_when_running CHECK (try_expires_at IS NULL OR status = 'running'),
    CONSTRAINT steps_queue_named CHECK (status NOT IN ('queued', 'running', 'backing_off') OR (lane IS NOT NULL AND owner IS NOT NULL)),
    CONSTRAINT steps_ended_when_final CHECK (
        (status IN ('completed', 'failed', 'skipped', 'cancelled')) = (ended_at IS NOT NULL)
    ),
    CONSTRAINT steps_output_when_completed CHECK (output IS NULL OR status = 'completed')
) PARTITION BY RANGE (run_id);
CREATE INDEX steps_by_lease_expiry ON steps (lease_expires_at) WHERE status = 'running';
CREATE INDEX steps_unfinished ON steps (run_id, step) WHERE status IN ('queued', 'running', 'backing_off', 'waiting', 'parked');

-- Finished acquisitions. A running one stands on its step.
CREATE TABLE attempts (
    run_id     uuid        NOT NULL,
    step       integer     NOT NULL,
    fence      integer     NOT NULL,
    lease_id   uuid        NOT NULL,
    worker     text        NOT NULL,
    outcome    text        NOT NULL,
    error      bytea,
    next_step  integer, -- the step chained to its report, so that a repeat gets the same answer
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    CONSTRAINT attempts_pkey PRIMARY KEY (run_id, step, fence),
    CONSTRAINT attempts_outcome_known CHECK (
        outcome IN ('completed', 'failed', 'timed_out', 'lost', 'released', 'cancelled')
    )
) PARTITION BY RANGE (run_id);

CREATE TABLE effects (
    run_id     uuid          NOT NULL,
    key        text          NOT NULL,
    org        text          NOT NULL,
    step       integer       NOT NULL,
    kind       text          NOT NULL,
    status     effect_status NOT NULL,
    fence      integer       NOT NULL, -- the acquisition that began the latest call
    calls      integer       NOT NULL,
    begun_at   timestamptz   NOT NULL, -- the first call
    settled_at timestamptz,
    CONSTRAINT effects_pkey PRIMARY KEY (run_id, key),
    CONSTRAINT effects_kind_known CHECK (kind IN ('provider', 'reconcile', 'none')),
    CONSTRAINT effects_calls_positive CHECK (calls > 0),
    CONSTRAINT effects_settled_has_time CHECK ((status = 'settled') = (settled_at IS NOT NULL))
) PARTITION BY RANGE (run_id);
CREATE INDEX effects_open ON effects (begun_at) WHERE status IN ('in_flight', 'outcome_unknown', 'needs_review');

CREATE TABLE history (
    run_id  uuid        NOT NULL,
    seq     integer     NOT NULL,
    at      timestamptz NOT NULL,
    kind    text        NOT NULL,
    step    integer,
    fence   integer,
    details bytea, -- JSON object, or null
    CONSTRAINT history_pkey PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);

-- The months there are partitions for. A month is closed here before it is dropped.
CREATE TABLE months (
    month  date    NOT NULL,
    closed boolean NOT NULL DEFAULT false,
    CONSTRAINT months_pkey PRIMARY KEY (month),
    CONSTRAINT months_first_day CHECK (extract(day FROM month) = 1)
);

-- The smallest UUIDv7 of an instant: its 48 bits of milliseconds, then zeros.
CREATE FUNCTION uuid7_floor(instant timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT (lpad(to_hex((extract(epoch FROM instant) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Makes the partitions of one month where they are missing; says whether it made any. They are made apart
-- and attached, which waits for nobody who reads or writes the parents and makes nobody wait (F107). Their
-- indexes are named after the parent's (steps_pkey_202601), so that an error names what was broken.
CREATE FUNCTION ensure_month(first_day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    child text;
    ending text := to_char(first_day, '_YYYYMM');
    renamed record;
    lower_bound uuid := uuid7_floor(first_day::timestamp AT TIME ZONE 'UTC');
    upper_bound uuid := uuid7_floor((first_day + interval '1 month')::timestamp AT TIME ZONE 'UTC');
BEGIN
    INSERT INTO months (month) VALUES (first_day) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOREACH parent IN ARRAY ARRAY['runs', 'run_tags', 'steps', 'attempts', 'effects', 'history'] LOOP
        child := parent || ending;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
        IF parent IN ('runs', 'steps') THEN
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
    RETURN true;
END
$$;
