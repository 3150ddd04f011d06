-- Callbacks: the tokens that a run hands out are made with a secret of its own.

ALTER TABLE runs
    ADD COLUMN callback_secret bytea; -- null: the run has made no token
