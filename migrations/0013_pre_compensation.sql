-- Compensation: a run that compensates is open until all is done, in the status that it was to end in.

ALTER TABLE runs
    ADD COLUMN ending        run_status, -- the status it will end in; null: it goes on, or has ended
    ADD COLUMN undo_below    integer NOT NULL DEFAULT 0, -- steps with a lower rank are still to be compensated
    ADD COLUMN compensations integer NOT NULL DEFAULT 0, -- begun so far
    ADD COLUMN uncompensated integer NOT NULL DEFAULT 0, -- steps that were to be compensated and are not
    ADD CONSTRAINT runs_ending_while_open CHECK (ending IS NULL OR status = 'running' OR ending = status),
    DROP CONSTRAINT runs_output_when_completed,
    ADD CONSTRAINT runs_output_when_completed CHECK (output IS NULL OR status = 'completed' OR ending = 'completed');

ALTER TABLE steps
    ADD COLUMN compensable boolean NOT NULL DEFAULT false, -- it did what its compensation would take back
    ADD COLUMN compensates integer; -- the step that this one compensates
CREATE INDEX steps_to_compensate ON steps (run_id, ended_rank) WHERE compensable;
DO $$ -- the indexes of the months that there are, named after the parent's, as ensure_month names them
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, whole.relname || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS whole ON whole.oid = i.inhparent AND whole.relname = 'steps_to_compensate'
          JOIN pg_class AS part ON part.oid = i.inhrelid
          JOIN pg_index AS x ON x.indexrelid = part.oid
          JOIN pg_class AS month ON month.oid = x.indrelid
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
    END LOOP;
END
$$;

ALTER TABLE timers DROP CONSTRAINT timers_kind_known;
ALTER TABLE timers DROP CONSTRAINT timers_internal_kinds;
ALTER TABLE timers DROP CONSTRAINT timers_step_kinds;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_known CHECK (
        kind IN (
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended',
            'leave_children', 'cancel_run', 'emit', 'park', 'unpark', 'replay', 'reopen',
            'compensate'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN (
            'begin', 'hand_over', 'end_steps', 'advance', 'leave_children', 'cancel_run', 'emit', 'park', 'unpark',
            'replay', 'reopen', 'compensate'
        ))
    );
