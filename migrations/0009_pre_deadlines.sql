-- Times that a run is given, and what it gives away. A node's deadline is a timer, which is no way forward (R10); that
-- of a run is a column, as its age limit is. A run that is to begin later has a timer of its own, `begin`.

ALTER TABLE runs
    ADD COLUMN deadline_at timestamptz, -- when the time passes that the run was given at its beginning; null: none
    ADD COLUMN start_at    timestamptz, -- when it was asked to begin; null: at once
    ADD COLUMN pending     boolean NOT NULL DEFAULT false, -- it has not begun
    ADD COLUMN begun_at    timestamptz; -- when it began, if that was after it was made
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE status = 'running' AND deadline_at IS NOT NULL;
DO $$ -- the indexes of the months that there are, named after the parent's, as ensure_month names them
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, whole.relname || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS whole ON whole.oid = i.inhparent AND whole.relname = 'runs_by_deadline'
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
            'retry', 'wait', 'timeout', 'deadline', 'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside',
            'start_child', 'child_ended', 'leave_children', 'cancel_run'
        )
    ),
    ADD CONSTRAINT timers_internal_kinds CHECK (
        internal = (kind IN (
            'begin', 'end_steps', 'advance', 'fan_out', 'stop_inside', 'start_child', 'child_ended', 'leave_children',
            'cancel_run'
        ))
    ),
    ADD CONSTRAINT timers_step_kinds CHECK (
        (step IS NULL) = (kind IN ('begin', 'end_steps', 'advance', 'leave_children', 'cancel_run'))
    );

ALTER TABLE workflow_nodes ADD COLUMN publish text; -- the name under which it gives its output away; null: none
