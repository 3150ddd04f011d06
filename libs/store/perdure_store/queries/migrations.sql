-- The ledger of applied migrations and the lock under which it is written.

-- name: try_lock
-- Takes the migration lock of this database if it is free; never waits.
SELECT pg_try_advisory_lock($1)

-- name: unlock
-- Gives the migration lock back.
SELECT pg_advisory_unlock($1)

-- name: has_ledger
-- Tells whether any runner was ever here.
SELECT to_regclass('schema_migrations') IS NOT NULL

-- name: create_ledger
-- Makes the table of applied migrations.
CREATE TABLE schema_migrations (
    version    integer     NOT NULL,
    name       text        NOT NULL,
    sha256     text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
)

-- name: applied
-- Lists what was applied, oldest first.
SELECT version, name, sha256, applied_at FROM schema_migrations ORDER BY version

-- name: record
-- Notes a migration as applied, in the transaction that ran it.
INSERT INTO schema_migrations (version, name, sha256) VALUES ($1, $2, $3)

-- name: version
-- The highest migration applied; null when there is none.
SELECT max(version) FROM schema_migrations
