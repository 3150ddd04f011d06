-- What moves a run on: start keys, the outbox, timers; and the view of what has no way forward (R10).

CREATE TABLE start_keys (
    org        text        NOT NULL,
    start_key  text        NOT NULL,
    run_id     uuid        NOT NULL,
    digest     bytea       NOT NULL, -- SHA-256 of the request as asked
    created_at timestamptz NOT NULL,
    expires_at timestamptz, -- the run's end plus retention; null while it goes on
    CONSTRAINT start_keys_pkey PRIMARY KEY (org, start_key)
);
CREATE INDEX start_keys_by_run ON start_keys (run_id);
CREATE INDEX start_keys_by_expiry ON start_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TYPE outbox_state AS ENUM ('ready', 'sent', 'blocked');

-- One row per queued step, deleted by the lease (R4).
CREATE TABLE outbox (
    outbox_id   bigint       GENERATED ALWAYS AS IDENTITY,
    org         text         NOT NULL,
    run_id      uuid         NOT NULL,
    step        integer      NOT NULL,
    lane        text         NOT NULL,
    owner       text         NOT NULL,
    slot        smallint     NOT NULL, -- hash of run and step, 0..255; its relay shard is slot modulo the lane's shards
    priority    smallint     NOT NULL,
    state       outbox_state NOT NULL DEFAULT 'ready',
    traceparent text,
    created_at  timestamptz  NOT NULL,
    sent_at     timestamptz,
    entry_id    text, -- of the stream entry
    CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id),
    CONSTRAINT outbox_one_per_step UNIQUE (run_id, step),
    CONSTRAINT outbox_slot_range CHECK (slot BETWEEN 0 AND 255),
    CONSTRAINT outbox_sent_has_entry CHECK ((state = 'sent') = (entry_id IS NOT NULL) AND (state = 'sent') = (sent_at IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_ready ON outbox (lane, owner, org, priority DESC, outbox_id) WHERE state = 'ready';
CREATE INDEX outbox_sent ON outbox (lane, owner, outbox_id) WHERE state = 'sent';
CREATE INDEX outbox_blocked ON outbox (lane, owner) WHERE state = 'blocked';

-- The one carrier of the future: retries, waits, and internal events due now.
CREATE TABLE timers (
    timer_id   bigint      GENERATED ALWAYS AS IDENTITY,
    org        text        NOT NULL,
    run_id     uuid        NOT NULL,
    step       integer, -- null: the run as a whole
    kind       text        NOT NULL,
    internal   boolean     NOT NULL DEFAULT false,
    generation integer     NOT NULL DEFAULT 0, -- of the run when it was set
    due_at     timestamptz NOT NULL,
    next_try   timestamptz NOT NULL, -- due_at, moved by failed deliveries
    tries      integer     NOT NULL DEFAULT 0,
    details    bytea, -- JSON for the event, or null
    CONSTRAINT timers_pkey PRIMARY KEY (timer_id),
    CONSTRAINT timers_kind_known CHECK (kind IN ('retry', 'wait', 'end_steps', 'advance')),
    CONSTRAINT timers_internal_kinds CHECK (internal = (kind IN ('end_steps', 'advance'))),
    CONSTRAINT timers_step_kinds CHECK ((step IS NOT NULL) = (kind IN ('retry', 'wait')))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01);
CREATE UNIQUE INDEX timers_one_per_step ON timers (run_id, step, kind) WHERE step IS NOT NULL;
CREATE INDEX timers_by_run ON timers (run_id);
-- Internal events apart from the others; not by partial indexes, which a prepared plan could not choose from.
CREATE INDEX timers_soonest ON timers (internal, next_try);
CREATE INDEX timers_in_turn ON timers (internal, org, next_try);

-- R10: unfinished steps, and unfinished runs, that have no durable way forward. Empty in a healthy engine.
CREATE VIEW no_way_forward AS
SELECT s.org, s.run_id, s.step, s.status::text AS status,
       CASE WHEN o.state IS NULL THEN 'queued without an outbox row' ELSE 'blocked for a cause that does not stand' END
           AS missing
  FROM steps AS s JOIN runs AS r USING (run_id) LEFT JOIN outbox AS o ON o.run_id = s.run_id AND o.step = s.step
 WHERE s.status = 'queued' AND r.status = 'running' AND (o.state IS NULL OR o.state = 'blocked')
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'running under a lease that ended long ago'
  FROM steps AS s JOIN runs AS r USING (run_id) JOIN lanes AS l ON l.lane = s.lane
 WHERE s.status = 'running' AND r.status = 'running'
   AND s.lease_expires_at < clock_timestamp() - l.lease_ms * interval '1 ms' - interval '30 s'
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'backing off without a retry timer'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'backing_off' AND r.status = 'running'
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'retry')
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'waiting without a timer'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'waiting' AND r.status = 'running'
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'wait')
UNION ALL
SELECT s.org, s.run_id, s.step, s.status::text, 'parked for a cause that does not stand'
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.status = 'parked' AND r.status = 'running'
UNION ALL
SELECT r.org, r.run_id, NULL, r.status::text, 'running with no unfinished step and no internal event'
  FROM runs AS r
 WHERE r.status = 'running'
   AND NOT EXISTS (
       SELECT FROM steps AS s
        WHERE s.run_id = r.run_id AND s.status IN ('queued', 'running', 'backing_off', 'waiting', 'parked')
   )
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = r.run_id AND t.internal);
