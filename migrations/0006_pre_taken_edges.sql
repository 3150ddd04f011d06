-- What joins and failures leave on a step, and what a run that fails keeps while it goes on: its error stands in `runs.error`
-- from the first failure on that nothing caught.

ALTER TABLE steps
    ADD COLUMN taken      text[], -- the nodes its edges lead to: a switch, or a failure caught by `then`; null: all
    ADD COLUMN ended_rank integer, -- the how-many-th node of its run to end; null: not ended, or after the run's end
    ADD COLUMN stopping   boolean NOT NULL DEFAULT false; -- it was running when its run stopped: its worker is told to end it
