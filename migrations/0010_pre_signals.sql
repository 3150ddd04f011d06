-- Signals (protocol p6): what runs were sent, who waits for what, and whose correlation keys are. None of it is
-- partitioned: a key knows no run, and a signal may be there before its run is.

-- A row is what a signal by the key and a wait on it lock; without a run it is no more than that, and may go.
CREATE TABLE correlation_keys (
    org             text        NOT NULL,
    correlation_key text        NOT NULL,
    run_id          uuid, -- whose it is, from its first wait on it to its end; null: nobody's
    touched_at      timestamptz NOT NULL,
    CONSTRAINT correlation_keys_pkey PRIMARY KEY (org, correlation_key),
    CONSTRAINT correlation_keys_length CHECK (length(correlation_key) BETWEEN 1 AND 200)
) WITH (fillfactor = 80);
CREATE INDEX correlation_keys_by_run ON correlation_keys (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX correlation_keys_free ON correlation_keys (touched_at) WHERE run_id IS NULL;

-- The inbox. A signal that was taken stays as long as its id is to be known.
CREATE TABLE signals (
    number          bigint      GENERATED ALWAYS AS IDENTITY, -- the order in which they came
    org             text        NOT NULL,
    run_id          uuid, -- whose it is; null: its key is nobody's yet
    correlation_key text, -- it was sent by; null: it was sent to the run
    signal_id       text        NOT NULL,
    name            text        NOT NULL,
    data            bytea       NOT NULL, -- JSON
    seen            boolean     NOT NULL, -- a decision of the run has looked at it
    received_at     timestamptz NOT NULL,
    taken_by        integer, -- the step that consumed it
    expires_at      timestamptz, -- its run's end plus retention; of one that is nobody's, when it is given up
    CONSTRAINT signals_pkey PRIMARY KEY (number),
    CONSTRAINT signals_for_somebody CHECK (run_id IS NOT NULL OR correlation_key IS NOT NULL),
    CONSTRAINT signals_taken_from_a_run CHECK (taken_by IS NULL OR run_id IS NOT NULL)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX signals_one_per_run_and_id ON signals (run_id, signal_id) WHERE correlation_key IS NULL;
CREATE UNIQUE INDEX signals_one_per_key_and_id ON signals (org, correlation_key, signal_id) WHERE correlation_key IS NOT NULL;
CREATE INDEX signals_by_run ON signals (run_id);
CREATE INDEX signals_waiting ON signals (run_id, name, number) WHERE taken_by IS NULL;
CREATE INDEX signals_waiting_by_key ON signals (org, correlation_key) WHERE taken_by IS NULL AND correlation_key IS NOT NULL;
CREATE INDEX signals_unseen ON signals (run_id, name) WHERE NOT seen AND taken_by IS NULL AND run_id IS NOT NULL;
CREATE INDEX signals_by_expiry ON signals (expires_at) WHERE expires_at IS NOT NULL;

-- Open waits: the way forward of a step that waits for a signal (R10).
CREATE TABLE signal_waits (
    run_id          uuid        NOT NULL,
    step            integer     NOT NULL,
    org             text        NOT NULL,
    name            text        NOT NULL,
    correlation_key text, -- null: only what is sent to the run
    opened_at       timestamptz NOT NULL,
    CONSTRAINT signal_waits_pkey PRIMARY KEY (run_id, step)
);
CREATE INDEX signal_waits_by_org ON signal_waits (org, opened_at);

ALTER TABLE runs
    ADD COLUMN has_mail boolean NOT NULL DEFAULT false; -- its end has signals, waits or keys to clear

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended', 'leave_children',
            'cancel_run', 'emit'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN ('begin', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit'))
    );

-- R10: a step that waits for a signal has its open wait.
CREATE OR REPLACE VIEW ways_of_waiting AS
SELECT t.run_id, t.step FROM timers AS t
 WHERE t.kind IN ('wait', 'fan_out', 'stop_inside', 'start_child', 'child_ended')
UNION ALL
SELECT s.run_id, s.owner FROM scopes AS s WHERE s.status = 'running'
UNION ALL
SELECT c.run_id, c.step FROM children AS c JOIN runs AS child ON child.run_id = c.child_run
 WHERE child.status = 'running'
UNION ALL
SELECT w.run_id, w.step FROM signal_waits AS w;

GRANT SELECT ON correlation_keys, signals, signal_waits TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT INSERT, DELETE ON correlation_keys, signals, signal_waits TO perdure_coordinator;
GRANT UPDATE ON correlation_keys, signals TO perdure_coordinator;
-- UPDATE only to lock rows before deleting them.
GRANT DELETE, UPDATE (expires_at) ON signals TO perdure_sweeper;
GRANT DELETE, UPDATE (touched_at) ON correlation_keys TO perdure_sweeper;
