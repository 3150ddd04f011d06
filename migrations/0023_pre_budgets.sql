-- Money: what tries may cost and did, and the budgets that operators set.

CREATE TABLE budgets (
    org        text        NOT NULL,
    name       text        NOT NULL,
    budget_id  uuid        NOT NULL DEFAULT gen_random_uuid(), -- the timer of its next period hangs on it
    workflow   text        NOT NULL, -- empty: every workflow of the org
    micros     bigint      NOT NULL, -- millionths of a unit, for each period
    period     text        NOT NULL,
    currency   text        NOT NULL, -- for people; nothing is converted
    spent      bigint      NOT NULL DEFAULT 0, -- in the period that began at `since`
    since      timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT budgets_pkey PRIMARY KEY (org, name),
    CONSTRAINT budgets_id_unique UNIQUE (budget_id),
    CONSTRAINT budgets_name_plain CHECK (name ~ '^[a-z][a-z0-9_.-]{0,62}$'),
    CONSTRAINT budgets_period_known CHECK (period IN ('day', 'month', 'total')),
    CONSTRAINT budgets_amounts CHECK (micros >= 0 AND spent >= 0)
) WITH (fillfactor = 70);

-- What a try has set aside of a budget, and what it came to; added to the budget by whoever locks that next.
CREATE TABLE budget_charges (
    org        text        NOT NULL,
    name       text        NOT NULL,
    run_id     uuid        NOT NULL,
    step       integer     NOT NULL,
    fence      integer     NOT NULL,
    micros     bigint      NOT NULL,
    settled    boolean     NOT NULL DEFAULT false,
    charged_at timestamptz NOT NULL,
    CONSTRAINT budget_charges_pkey PRIMARY KEY (org, name, run_id, step, fence),
    CONSTRAINT budget_charges_amount CHECK (micros >= 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

CREATE INDEX budget_charges_of_run ON budget_charges (run_id, step);

-- What the tries of a step are estimated to cost, have set aside and did cost.
CREATE TABLE step_costs (
    run_id   uuid    NOT NULL,
    step     integer NOT NULL,
    estimate bigint  NOT NULL,
    reserved bigint  NOT NULL DEFAULT 0,
    spent    bigint  NOT NULL DEFAULT 0,
    CONSTRAINT step_costs_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT step_costs_amounts CHECK (estimate >= 0 AND reserved >= 0 AND spent >= 0)
) PARTITION BY RANGE (run_id);

CREATE TABLE run_spending (
    run_id   uuid   NOT NULL,
    spent    bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    CONSTRAINT run_spending_pkey PRIMARY KEY (run_id),
    CONSTRAINT run_spending_amounts CHECK (spent >= 0 AND reserved >= 0)
) PARTITION BY RANGE (run_id);

SELECT ensure_month(month) FROM months WHERE NOT closed;

-- When the period of a budget began that holds at an instant, in UTC.
CREATE FUNCTION period_start(period text, at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT
RETURN CASE WHEN period = 'total' THEN '-infinity'::timestamptz
            ELSE date_trunc(period, at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' END;

CREATE FUNCTION period_end(period text, at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT
RETURN CASE WHEN period = 'total' THEN 'infinity'::timestamptz
            ELSE (date_trunc(period, at AT TIME ZONE 'UTC') + ('1 ' || period)::interval) AT TIME ZONE 'UTC' END;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase', 'cause_gone', 'new_period'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate', 'migrate', 'erase', 'cause_gone', 'new_period'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay',
            'reopen', 'compensate', 'migrate', 'erase', 'cause_gone', 'new_period'
        ))
    );

GRANT SELECT, INSERT, UPDATE ON budgets, step_costs, run_spending TO perdure_coordinator;
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_charges TO perdure_coordinator;
GRANT SELECT ON budgets, budget_charges, step_costs, run_spending TO perdure_ingest;
