-- Migrations of runs from one version of their workflow to another: what was asked for, how far it came, and what
-- became of each run.

CREATE TABLE run_migrations (
    migration_id uuid        NOT NULL,
    org          text        NOT NULL,
    workflow     text        NOT NULL,
    from_version integer     NOT NULL,
    to_version   integer     NOT NULL,
    from_id      bigint      NOT NULL, -- the workflow that the runs leave
    plan         bytea       NOT NULL, -- what each run's event carries
    chosen       uuid[], -- the runs it is for; null: all unfinished ones of the version
    cursor       uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the last run that got its event
    selected     integer     NOT NULL DEFAULT 0, -- how many runs got one
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz, -- when the last run got its event
    CONSTRAINT run_migrations_pkey PRIMARY KEY (migration_id),
    CONSTRAINT run_migrations_two_versions CHECK (from_version <> to_version)
);

CREATE TABLE run_migration_outcomes (
    migration_id uuid NOT NULL,
    run_id       uuid NOT NULL,
    outcome      text NOT NULL,
    refusals     bytea, -- why it stays, where it does
    decided_at   timestamptz,
    CONSTRAINT run_migration_outcomes_pkey PRIMARY KEY (migration_id, run_id),
    CONSTRAINT run_migration_outcomes_known CHECK (outcome IN ('pending', 'migrated', 'refused', 'ended')),
    CONSTRAINT run_migration_outcomes_decided CHECK ((outcome = 'pending') = (decided_at IS NULL))
);

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay',
            'reopen', 'compensate', 'migrate'
        ))
    );

GRANT SELECT ON run_migrations, run_migration_outcomes TO perdure_coordinator, perdure_ingest;
GRANT INSERT, UPDATE ON run_migrations, run_migration_outcomes TO perdure_coordinator;
