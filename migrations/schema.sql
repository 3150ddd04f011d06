-- The whole schema, generated from a migrated database by `make schema`; edit the migrations.
-- Roles are made by 0001_pre_roles.sql, partitions by ensure_month.

SET check_function_bodies = off;

-- ---- Types

CREATE TYPE effect_status AS ENUM ('in_flight', 'settled', 'refused', 'outcome_unknown', 'needs_review', 'given_up');
CREATE TYPE outbox_state AS ENUM ('ready', 'sent', 'blocked');
CREATE TYPE run_status AS ENUM ('running', 'completed', 'failed', 'cancelled', 'timed_out');
CREATE TYPE scope_status AS ENUM ('pending', 'running', 'completed', 'failed');
CREATE TYPE step_status AS ENUM ('queued', 'running', 'backing_off', 'waiting', 'parked', 'completed', 'failed', 'skipped', 'cancelled');

-- ---- Functions

CREATE FUNCTION connection_room(ago interval)
 RETURNS TABLE(org text, connection text, room integer)
 LANGUAGE sql
 STABLE ROWS 10
AS $function$
    WITH RECURSIVE wanted AS (
        (SELECT o.org, o.connection FROM outbox AS o
          WHERE o.state = 'blocked' AND o.org > '' ORDER BY o.org, o.connection LIMIT 1)
        UNION ALL
        SELECT n.org, n.connection
          FROM wanted AS w
         CROSS JOIN LATERAL (
               SELECT o.org, o.connection FROM outbox AS o
                WHERE o.state = 'blocked' AND (o.org, o.connection) > (w.org, w.connection)
                ORDER BY o.org, o.connection LIMIT 1
         ) AS n
    )
    SELECT w.org, w.connection,
           CASE
               WHEN c.name IS NULL OR c.disabled OR c.refused = c.generation THEN 500
               WHEN c.open_until > t.at THEN 0
               WHEN c.open_until IS NOT NULL THEN
                   CASE WHEN c.probe_lease = (
                                 SELECT CASE WHEN s.status = 'running' THEN s.lease_id END
                                   FROM steps AS s WHERE s.run_id = c.probe_run AND s.step = c.probe_step
                             )
                        THEN 0 ELSE 1 END - asking.rows
               ELSE least(
                   CASE WHEN c.slots IS NULL THEN 500
                        WHEN EXISTS (
                            SELECT FROM connection_slots AS s
                             WHERE s.org = c.org AND s.connection = c.name AND s.slot > c.slots AND s.lease_id IS NOT NULL
                        ) THEN 0
                        ELSE (
                            SELECT count(*) FROM connection_slots AS s
                             WHERE s.org = c.org AND s.connection = c.name AND s.slot <= c.slots AND s.lease_id IS NULL
                        ) END,
                   CASE WHEN c.rate IS NULL THEN 500
                        ELSE floor(least(500, c.burst, c.tokens + c.rate * extract(epoch FROM t.at - c.filled_at)) + 1e-6)
                   END
               ) - asking.rows
           END::integer
      FROM wanted AS w
     CROSS JOIN (SELECT clock_timestamp() - ago AS at) AS t
      LEFT JOIN connections AS c ON c.org = w.org AND c.name = w.connection
     CROSS JOIN LATERAL (
           SELECT count(*) AS rows FROM outbox AS o
            WHERE o.connection IS NOT NULL AND o.state <> 'blocked' AND o.org = w.org AND o.connection = w.connection
     ) AS asking
$function$
;

CREATE FUNCTION database_timeline()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$function$
;

CREATE FUNCTION ensure_month(first_day date)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    parent text;
    child text;
    made boolean := false;
    ending text := to_char(first_day, '_YYYYMM');
    renamed record;
    lower_bound uuid := uuid7_floor(first_day::timestamp AT TIME ZONE 'UTC');
    upper_bound uuid := uuid7_floor((first_day + interval '1 month')::timestamp AT TIME ZONE 'UTC');
BEGIN
    INSERT INTO months (month) VALUES (first_day) ON CONFLICT DO NOTHING;
    FOR parent IN
        SELECT c.relname FROM pg_partitioned_table AS p JOIN pg_class AS c ON c.oid = p.partrelid
         WHERE c.relnamespace = 'public'::regnamespace AND to_regclass(quote_ident(c.relname || ending)) IS NULL
         ORDER BY c.relname
    LOOP
        made := true;
        child := parent || ending;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
        IF parent IN ('runs', 'steps', 'scopes', 'blocks') THEN
            EXECUTE format('ALTER TABLE %I SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)', child);
        END IF;
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, lower_bound, upper_bound
        );
        PERFORM open_to_coordinator(child::regclass, parent::regclass);
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
    RETURN made;
END
$function$
;

CREATE FUNCTION erase_details(erasure_id uuid)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE STRICT
RETURN convert_to((('{"erasure": "'::text || erasure_id) || '", "part": "steps", "after": ""}'::text), 'UTF8'::name)
;

CREATE FUNCTION erase_lines(erased_run uuid, after integer, upto integer, marker bytea)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    WITH erased AS (
        UPDATE history AS h SET details = marker
          FROM runs AS r
         WHERE r.run_id = erased_run AND r.erased AND h.run_id = erased_run
           AND h.seq > after AND h.seq <= upto AND h.details IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM erased
$function$
;

CREATE FUNCTION erase_tags(erased_run uuid)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    WITH erased AS (
        DELETE FROM run_tags AS t USING runs AS r
         WHERE r.run_id = erased_run AND r.erased AND t.run_id = erased_run
        RETURNING 1
    )
    SELECT count(*) FROM erased
$function$
;

CREATE FUNCTION erase_tries(erased_run uuid, after integer, upto integer, marker bytea)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    WITH erased AS (
        UPDATE attempts AS a SET error = marker
          FROM runs AS r
         WHERE r.run_id = erased_run AND r.erased AND a.run_id = erased_run
           AND a.step > after AND a.step <= upto AND a.error IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM erased
$function$
;

CREATE FUNCTION forget_scopes(run_ids uuid[], scopes text[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    WITH forgotten AS (
        SELECT run_id, scope FROM unnest(run_ids, scopes) AS u (run_id, scope)
    ), gone AS (
        DELETE FROM steps AS s USING forgotten AS f
         WHERE s.run_id = f.run_id AND (s.scope = f.scope OR starts_with(s.scope, f.scope || '.')) AND s.ended_at IS NOT NULL
        RETURNING s.run_id, s.step
    ), gone_attempts AS (
        DELETE FROM attempts AS a USING gone AS g WHERE a.run_id = g.run_id AND a.step = g.step
    ), gone_history AS (
        DELETE FROM history AS h USING gone AS g WHERE h.run_id = g.run_id AND h.step = g.step
    ), gone_blocks AS (
        DELETE FROM blocks AS b USING gone AS g WHERE b.run_id = g.run_id AND b.step = g.step
    )
    DELETE FROM scopes AS s USING forgotten AS f
     WHERE s.run_id = f.run_id AND (s.scope = f.scope OR starts_with(s.scope, f.scope || '.'))
$function$
;

CREATE FUNCTION installation_audit(below bigint, most integer, only_action text, only_target text)
 RETURNS TABLE(audit_id bigint, org text, at timestamp with time zone, actor text, action text, target text, details bytea)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    SELECT a.audit_id, a.org, a.at, a.actor, a.action, a.target, a.details
      FROM audit_log AS a
     WHERE a.org IS NULL AND a.audit_id < below
       AND (only_action = '' OR a.action = only_action) AND (only_target = '' OR a.target = only_target)
     ORDER BY a.audit_id DESC LIMIT most
$function$
;

CREATE FUNCTION isolate_orgs(isolated regclass, mine text DEFAULT 'org = nullif(current_setting(''perdure.org'', true), '''')'::text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', isolated);
    EXECUTE format('CREATE POLICY own_org ON %s FOR SELECT TO perdure_ingest USING (%s)', isolated, mine);
    EXECUTE format(
        'CREATE POLICY all_orgs ON %s TO perdure_coordinator, perdure_relay, perdure_timer, perdure_sweeper'
        ' USING (true) WITH CHECK (true)', isolated
    );
END
$function$
;

CREATE FUNCTION known_secrets(prefixes text[])
 RETURNS TABLE(prefix text, digest bytea, key_id text, org text, name text, member text, roles text[], scopes text[], rate double precision, burst integer, is_revoked boolean, member_roles text[], seconds_left double precision)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    SELECT s.prefix, s.digest, k.key_id, k.org, k.name, k.member, k.roles, k.scopes, k.rate, k.burst,
           k.revoked_at IS NOT NULL, m.roles,
           extract(epoch FROM least(k.expires_at, s.expires_at) - clock_timestamp())::double precision
      FROM api_key_secrets AS s
      JOIN api_keys AS k ON k.key_id = s.key_id
      LEFT JOIN members AS m ON m.org = k.org AND m.member = k.member
     WHERE s.prefix = ANY (prefixes)
$function$
;

CREATE FUNCTION open_to_coordinator(child regclass, parent regclass)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    rights text;
BEGIN
    SELECT string_agg(granted.privilege_type, ', ') INTO rights
      FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS granted
     WHERE c.oid = parent AND granted.grantee = 'perdure_coordinator'::regrole;
    IF rights IS NOT NULL THEN
        EXECUTE format('GRANT %s ON %s TO perdure_coordinator', rights, child);
    END IF;
END
$function$
;

CREATE FUNCTION org_weights()
 RETURNS TABLE(org text, weight smallint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    SELECT o.org, o.weight FROM orgs AS o ORDER BY o.org
$function$
;

CREATE FUNCTION period_end(period text, at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE STRICT
RETURN CASE WHEN (period = 'total'::text) THEN 'infinity'::timestamp with time zone ELSE ((date_trunc(period, (at AT TIME ZONE 'UTC'::text)) + (('1 '::text || period))::interval) AT TIME ZONE 'UTC'::text) END
;

CREATE FUNCTION period_start(period text, at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE STRICT
RETURN CASE WHEN (period = 'total'::text) THEN '-infinity'::timestamp with time zone ELSE (date_trunc(period, (at AT TIME ZONE 'UTC'::text)) AT TIME ZONE 'UTC'::text) END
;

CREATE FUNCTION refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'a published workflow never changes' USING ERRCODE = 'integrity_constraint_violation',
        CONSTRAINT = 'workflows_immutable';
END
$function$
;

CREATE FUNCTION runs_past(orgs text[], run_ids uuid[], revisions bigint[])
 RETURNS TABLE(org text, run_id uuid)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    SELECT r.org, r.run_id
      FROM unnest(orgs, run_ids, revisions) AS wanted (org, run_id, revision)
      JOIN runs AS r ON r.run_id = wanted.run_id AND r.org = wanted.org AND r.revision > wanted.revision
     WHERE r.run_id = ANY (run_ids)
$function$
;

CREATE FUNCTION subject_lock(subject_hash bytea)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE STRICT
RETURN ((('x'::text || encode(substr(subject_hash, 1, 8), 'hex'::text)))::bit(64))::bigint
;

CREATE FUNCTION uuid7_floor(instant timestamp with time zone)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
    SELECT (lpad(to_hex((extract(epoch FROM instant) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$function$
;

-- ---- Tables

CREATE TABLE schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

CREATE TABLE orgs (
    org text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    weight smallint DEFAULT 1 NOT NULL,
    CONSTRAINT orgs_pkey PRIMARY KEY (org),
    CONSTRAINT orgs_org_not_empty CHECK ((org <> ''::text)),
    CONSTRAINT orgs_weight_range CHECK (((weight >= 1) AND (weight <= 100)))
);

CREATE TABLE lanes (
    lane text NOT NULL,
    shards smallint DEFAULT 1 NOT NULL,
    stream_ceiling integer DEFAULT 1000 NOT NULL,
    hand_out_ms integer DEFAULT 10000 NOT NULL,
    lease_ms integer DEFAULT 30000 NOT NULL,
    poison_limit smallint DEFAULT 3 NOT NULL,
    retry_max smallint NOT NULL,
    retry_base_ms integer DEFAULT 1000 NOT NULL,
    retry_factor double precision DEFAULT 2 NOT NULL,
    retry_cap_ms integer DEFAULT 300000 NOT NULL,
    CONSTRAINT lanes_pkey PRIMARY KEY (lane),
    CONSTRAINT lanes_lane_plain CHECK ((lane ~ '^[a-z][a-z0-9_-]{0,39}$'::text)),
    CONSTRAINT lanes_positive CHECK (((stream_ceiling > 0) AND (hand_out_ms > 0) AND (lease_ms > 0) AND (poison_limit > 0) AND (retry_max >= 0) AND (retry_base_ms > 0) AND (retry_factor >= (1)::double precision) AND (retry_cap_ms > 0))),
    CONSTRAINT lanes_shards_range CHECK (((shards >= 1) AND (shards <= 256)))
);

CREATE TABLE workflows (
    workflow_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    org text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    digest bytea NOT NULL,
    document bytea NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT workflows_pkey PRIMARY KEY (workflow_id),
    CONSTRAINT workflows_version_unique UNIQUE (org, name, version),
    CONSTRAINT workflows_digest_length CHECK ((octet_length(digest) = 32)),
    CONSTRAINT workflows_version_positive CHECK ((version > 0))
);

CREATE TABLE workflow_nodes (
    workflow_id bigint NOT NULL,
    node text NOT NULL,
    steps text[] NOT NULL,
    outputs text[] NOT NULL,
    input boolean NOT NULL,
    publish text,
    CONSTRAINT workflow_nodes_pkey PRIMARY KEY (workflow_id, node)
);

CREATE TABLE leaders (
    duty text NOT NULL,
    holder text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT leaders_pkey PRIMARY KEY (duty)
);

CREATE TABLE runs (
    run_id uuid NOT NULL,
    org text NOT NULL,
    workflow_id bigint NOT NULL,
    workflow text NOT NULL,
    workflow_version integer NOT NULL,
    status run_status DEFAULT 'running'::run_status NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    next_step integer DEFAULT 1 NOT NULL,
    ended_nodes integer DEFAULT 0 NOT NULL,
    next_seq integer DEFAULT 1 NOT NULL,
    input bytea NOT NULL,
    output bytea,
    error bytea,
    start_key text,
    tags bytea DEFAULT '\x7b7d'::bytea NOT NULL,
    traceparent text,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    age_at timestamp with time zone,
    inner_ended integer DEFAULT 0 NOT NULL,
    scope_generation integer DEFAULT 0 NOT NULL,
    parent_run uuid,
    parent_step integer,
    parent_told boolean DEFAULT false NOT NULL,
    depth smallint DEFAULT 0 NOT NULL,
    open_children integer DEFAULT 0 NOT NULL,
    awaited_children integer DEFAULT 0 NOT NULL,
    deadline_at timestamp with time zone,
    start_at timestamp with time zone,
    pending boolean DEFAULT false NOT NULL,
    begun_at timestamp with time zone,
    has_mail boolean DEFAULT false NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    pauses integer DEFAULT 0 NOT NULL,
    dead_lettered boolean DEFAULT false NOT NULL,
    recounted integer DEFAULT 0 NOT NULL,
    exclusive_key text,
    ending run_status,
    undo_below integer DEFAULT 0 NOT NULL,
    compensations integer DEFAULT 0 NOT NULL,
    uncompensated integer DEFAULT 0 NOT NULL,
    callback_secret bytea,
    erased boolean DEFAULT false NOT NULL,
    has_effects boolean DEFAULT false NOT NULL,
    CONSTRAINT runs_pkey PRIMARY KEY (run_id),
    CONSTRAINT runs_children_counted CHECK (((open_children >= 0) AND (awaited_children >= 0))),
    CONSTRAINT runs_ended_when_final CHECK (((status = 'running'::run_status) = (ended_at IS NULL))),
    CONSTRAINT runs_ending_while_open CHECK (((ending IS NULL) OR (status = 'running'::run_status) OR (ending = status))),
    CONSTRAINT runs_output_when_completed CHECK (((output IS NULL) OR (status = 'completed'::run_status) OR (ending = 'completed'::run_status))),
    CONSTRAINT runs_parent_whole CHECK (((parent_run IS NULL) = (parent_step IS NULL))),
    CONSTRAINT runs_priority_range CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT runs_start_key_length CHECK (((start_key IS NULL) OR ((length(start_key) >= 1) AND (length(start_key) <= 200))))
) PARTITION BY RANGE (run_id);

CREATE TABLE run_tags (
    run_id uuid NOT NULL,
    org text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    CONSTRAINT run_tags_pkey PRIMARY KEY (run_id, key)
) PARTITION BY RANGE (run_id);

CREATE TABLE steps (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    org text NOT NULL,
    scope text DEFAULT ''::text NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    node text NOT NULL,
    kind text NOT NULL,
    status step_status NOT NULL,
    lane text,
    owner text,
    priority smallint DEFAULT 0 NOT NULL,
    fence integer DEFAULT 0 NOT NULL,
    lease_id uuid,
    lease_expires_at timestamp with time zone,
    try_expires_at timestamp with time zone,
    worker text,
    failures integer DEFAULT 0 NOT NULL,
    losses integer DEFAULT 0 NOT NULL,
    effect_prefix text,
    input bytea,
    output bytea,
    error bytea,
    traceparent text,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    taken text[],
    ended_rank integer,
    stopping boolean DEFAULT false NOT NULL,
    undecided boolean DEFAULT false NOT NULL,
    parked_on text,
    parked_generation integer,
    parked_from step_status,
    compensable boolean DEFAULT false NOT NULL,
    compensates integer,
    CONSTRAINT steps_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT steps_one_activation UNIQUE (run_id, scope, generation, node),
    CONSTRAINT steps_ended_when_final CHECK (((status = ANY (ARRAY['completed'::step_status, 'failed'::step_status, 'skipped'::step_status, 'cancelled'::step_status])) = (ended_at IS NOT NULL))),
    CONSTRAINT steps_output_when_completed CHECK (((output IS NULL) OR (status = 'completed'::step_status))),
    CONSTRAINT steps_parked_for_a_cause CHECK ((((status = 'parked'::step_status) = (parked_on IS NOT NULL)) AND ((parked_on IS NULL) = (parked_generation IS NULL)) AND ((parked_on IS NULL) = (parked_from IS NULL)))),
    CONSTRAINT steps_queue_named CHECK (((status <> ALL (ARRAY['queued'::step_status, 'running'::step_status])) OR ((lane IS NOT NULL) AND (owner IS NOT NULL)))),
    CONSTRAINT steps_running_has_lease CHECK ((((status = 'running'::step_status) = (lease_expires_at IS NOT NULL)) AND ((status <> 'running'::step_status) OR ((lease_id IS NOT NULL) AND (worker IS NOT NULL) AND (fence > 0))))),
    CONSTRAINT steps_try_when_running CHECK (((try_expires_at IS NULL) OR (status = 'running'::step_status)))
) PARTITION BY RANGE (run_id);

CREATE TABLE attempts (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    fence integer NOT NULL,
    lease_id uuid NOT NULL,
    worker text NOT NULL,
    outcome text NOT NULL,
    error bytea,
    next_step integer,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    CONSTRAINT attempts_pkey PRIMARY KEY (run_id, step, fence),
    CONSTRAINT attempts_outcome_known CHECK ((outcome = ANY (ARRAY['completed'::text, 'failed'::text, 'timed_out'::text, 'lost'::text, 'released'::text, 'cancelled'::text])))
) PARTITION BY RANGE (run_id);

CREATE TABLE effects (
    run_id uuid NOT NULL,
    key text NOT NULL,
    org text NOT NULL,
    step integer NOT NULL,
    kind text NOT NULL,
    status effect_status NOT NULL,
    fence integer NOT NULL,
    calls integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    settled_at timestamp with time zone,
    token uuid,
    lease_expires_at timestamp with time zone,
    digest bytea,
    keep double precision,
    can_look_up boolean DEFAULT false NOT NULL,
    lookups integer DEFAULT 0 NOT NULL,
    epoch integer DEFAULT 0 NOT NULL,
    result bytea,
    note text DEFAULT ''::text NOT NULL,
    waiter integer,
    CONSTRAINT effects_pkey PRIMARY KEY (run_id, key),
    CONSTRAINT effects_calls_counted CHECK (((calls > 0) OR ((calls = 0) AND (status = 'refused'::effect_status)))),
    CONSTRAINT effects_kind_known CHECK ((kind = ANY (ARRAY['provider'::text, 'reconcile'::text, 'none'::text]))),
    CONSTRAINT effects_settled_has_time CHECK (((status = 'settled'::effect_status) = (settled_at IS NOT NULL)))
) PARTITION BY RANGE (run_id);

CREATE TABLE history (
    run_id uuid NOT NULL,
    seq integer NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    step integer,
    fence integer,
    details bytea,
    CONSTRAINT history_pkey PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);

CREATE TABLE months (
    month date NOT NULL,
    closed boolean DEFAULT false NOT NULL,
    CONSTRAINT months_pkey PRIMARY KEY (month),
    CONSTRAINT months_first_day CHECK ((EXTRACT(day FROM month) = (1)::numeric))
);

CREATE TABLE start_keys (
    org text NOT NULL,
    start_key text NOT NULL,
    run_id uuid NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT start_keys_pkey PRIMARY KEY (org, start_key)
);

CREATE TABLE outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    org text NOT NULL,
    run_id uuid NOT NULL,
    step integer NOT NULL,
    lane text NOT NULL,
    owner text NOT NULL,
    slot smallint NOT NULL,
    priority smallint NOT NULL,
    state outbox_state DEFAULT 'ready'::outbox_state NOT NULL,
    traceparent text,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    entry_id text,
    job integer DEFAULT 0 NOT NULL,
    connection text,
    blocked_at timestamp with time zone,
    CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id),
    CONSTRAINT outbox_one_per_step UNIQUE (run_id, step),
    CONSTRAINT outbox_sent_has_entry CHECK ((((state = 'sent'::outbox_state) = (entry_id IS NOT NULL)) AND ((state = 'sent'::outbox_state) = (sent_at IS NOT NULL)))),
    CONSTRAINT outbox_slot_range CHECK (((slot >= 0) AND (slot <= 255)))
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_cost_delay=0);

CREATE TABLE timers (
    timer_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    org text NOT NULL,
    run_id uuid NOT NULL,
    step integer,
    kind text NOT NULL,
    internal boolean DEFAULT false NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    next_try timestamp with time zone NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    details bytea,
    failure text,
    CONSTRAINT timers_pkey PRIMARY KEY (timer_id),
    CONSTRAINT timers_internal_kinds CHECK ((internal = (kind = ANY (ARRAY['begin'::text, 'hand_over'::text, 'end_steps'::text, 'advance'::text, 'fan_out'::text, 'stop_inside'::text, 'start_child'::text, 'child_ended'::text, 'leave_children'::text, 'cancel_run'::text, 'emit'::text, 'park'::text, 'unpark'::text, 'replay'::text, 'reopen'::text, 'compensate'::text, 'migrate'::text, 'erase'::text, 'cause_gone'::text, 'new_period'::text])))),
    CONSTRAINT timers_kind_known CHECK ((kind = ANY (ARRAY['retry'::text, 'wait'::text, 'effect_wait'::text, 'effect_lease'::text, 'timeout'::text, 'deadline'::text, 'begin'::text, 'hand_over'::text, 'end_steps'::text, 'advance'::text, 'fan_out'::text, 'stop_inside'::text, 'start_child'::text, 'child_ended'::text, 'leave_children'::text, 'cancel_run'::text, 'emit'::text, 'park'::text, 'unpark'::text, 'replay'::text, 'reopen'::text, 'compensate'::text, 'migrate'::text, 'erase'::text, 'cause_gone'::text, 'new_period'::text]))),
    CONSTRAINT timers_step_kinds CHECK (((step IS NULL) = (kind = ANY (ARRAY['effect_lease'::text, 'begin'::text, 'hand_over'::text, 'end_steps'::text, 'advance'::text, 'leave_children'::text, 'cancel_run'::text, 'emit'::text, 'park'::text, 'unpark'::text, 'replay'::text, 'reopen'::text, 'compensate'::text, 'migrate'::text, 'erase'::text, 'cause_gone'::text, 'new_period'::text]))))
) WITH (fillfactor=80, autovacuum_vacuum_scale_factor=0.01);

CREATE TABLE scopes (
    run_id uuid NOT NULL,
    scope text NOT NULL,
    generation integer NOT NULL,
    owner integer NOT NULL,
    index integer NOT NULL,
    status scope_status NOT NULL,
    ended_nodes integer DEFAULT 0 NOT NULL,
    item bytea,
    carry bytea,
    output bytea,
    error bytea,
    CONSTRAINT scopes_pkey PRIMARY KEY (run_id, scope, generation),
    CONSTRAINT scopes_error_when_failed CHECK (((status <> 'failed'::scope_status) OR (error IS NOT NULL))),
    CONSTRAINT scopes_output_when_completed CHECK (((output IS NOT NULL) = (status = 'completed'::scope_status)))
) PARTITION BY RANGE (run_id);

CREATE TABLE blocks (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    generation integer NOT NULL,
    total integer,
    at_once integer NOT NULL,
    made integer DEFAULT 0 NOT NULL,
    begun integer DEFAULT 0 NOT NULL,
    ended integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    ending text,
    error bytea,
    CONSTRAINT blocks_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT blocks_counts_in_order CHECK (((0 <= failed) AND (failed <= ended) AND (ended <= begun) AND (begun <= made))),
    CONSTRAINT blocks_ending_known CHECK ((ending = ANY (ARRAY['cancel'::text, 'fail'::text, 'complete'::text])))
) PARTITION BY RANGE (run_id);

CREATE TABLE children (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    org text NOT NULL,
    workflow text NOT NULL,
    version integer NOT NULL,
    on_parent_end text NOT NULL,
    status text NOT NULL,
    child_run uuid,
    CONSTRAINT children_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT children_rule_known CHECK ((on_parent_end = ANY (ARRAY['cancel'::text, 'abandon'::text, 'wait'::text]))),
    CONSTRAINT children_running_is_a_run CHECK (((status <> 'running'::text) OR (child_run IS NOT NULL))),
    CONSTRAINT children_status_known CHECK ((status = ANY (ARRAY['starting'::text, 'running'::text, 'left'::text, 'ended'::text])))
) PARTITION BY RANGE (run_id);

CREATE TABLE correlation_keys (
    org text NOT NULL,
    correlation_key text NOT NULL,
    run_id uuid,
    touched_at timestamp with time zone NOT NULL,
    CONSTRAINT correlation_keys_pkey PRIMARY KEY (org, correlation_key),
    CONSTRAINT correlation_keys_length CHECK (((length(correlation_key) >= 1) AND (length(correlation_key) <= 200)))
) WITH (fillfactor=80);

CREATE TABLE signals (
    number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    org text NOT NULL,
    run_id uuid,
    correlation_key text,
    signal_id text NOT NULL,
    name text NOT NULL,
    data bytea NOT NULL,
    seen boolean NOT NULL,
    received_at timestamp with time zone NOT NULL,
    taken_by integer,
    expires_at timestamp with time zone,
    CONSTRAINT signals_pkey PRIMARY KEY (number),
    CONSTRAINT signals_for_somebody CHECK (((run_id IS NOT NULL) OR (correlation_key IS NOT NULL))),
    CONSTRAINT signals_taken_from_a_run CHECK (((taken_by IS NULL) OR (run_id IS NOT NULL)))
) WITH (fillfactor=80);

CREATE TABLE signal_waits (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    org text NOT NULL,
    name text NOT NULL,
    correlation_key text,
    opened_at timestamp with time zone NOT NULL,
    CONSTRAINT signal_waits_pkey PRIMARY KEY (run_id, step)
);

CREATE TABLE dead_letters (
    run_id uuid NOT NULL,
    org text NOT NULL,
    workflow text NOT NULL,
    workflow_version integer NOT NULL,
    node text NOT NULL,
    cause text NOT NULL,
    code text NOT NULL,
    error bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (run_id),
    CONSTRAINT dead_letters_cause_known CHECK ((cause = ANY (ARRAY['retries'::text, 'poison'::text, 'permanent'::text])))
) PARTITION BY RANGE (run_id);

CREATE TABLE exclusive_keys (
    org text NOT NULL,
    key text NOT NULL,
    holder uuid,
    told boolean DEFAULT false NOT NULL,
    CONSTRAINT exclusive_keys_pkey PRIMARY KEY (org, key)
);

CREATE TABLE exclusive_waiters (
    org text NOT NULL,
    key text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    run_id uuid NOT NULL,
    told boolean DEFAULT false NOT NULL,
    CONSTRAINT exclusive_waiters_pkey PRIMARY KEY (org, key, place),
    CONSTRAINT exclusive_waiters_one_place UNIQUE (run_id)
);

CREATE TABLE run_migrations (
    migration_id uuid NOT NULL,
    org text NOT NULL,
    workflow text NOT NULL,
    from_version integer NOT NULL,
    to_version integer NOT NULL,
    from_id bigint NOT NULL,
    plan bytea NOT NULL,
    chosen uuid[],
    cursor uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    selected integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT run_migrations_pkey PRIMARY KEY (migration_id),
    CONSTRAINT run_migrations_two_versions CHECK ((from_version <> to_version))
);

CREATE TABLE run_migration_outcomes (
    migration_id uuid NOT NULL,
    run_id uuid NOT NULL,
    outcome text NOT NULL,
    refusals bytea,
    decided_at timestamp with time zone,
    CONSTRAINT run_migration_outcomes_pkey PRIMARY KEY (migration_id, run_id),
    CONSTRAINT run_migration_outcomes_decided CHECK (((outcome = 'pending'::text) = (decided_at IS NULL))),
    CONSTRAINT run_migration_outcomes_known CHECK ((outcome = ANY (ARRAY['pending'::text, 'migrated'::text, 'refused'::text, 'ended'::text])))
);

CREATE TABLE audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    org text,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    details bytea NOT NULL,
    CONSTRAINT audit_log_pkey PRIMARY KEY (audit_id)
);

CREATE TABLE run_subjects (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    org text NOT NULL,
    subject_hash bytea NOT NULL,
    purpose text NOT NULL,
    CONSTRAINT run_subjects_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT run_subjects_hash_length CHECK ((octet_length(subject_hash) = 32))
) PARTITION BY RANGE (run_id);

CREATE TABLE suppressions (
    org text NOT NULL,
    subject_hash bytea NOT NULL,
    purpose text NOT NULL,
    reason text NOT NULL,
    asked_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT suppressions_pkey PRIMARY KEY (org, subject_hash, purpose),
    CONSTRAINT suppressions_hash_length CHECK ((octet_length(subject_hash) = 32)),
    CONSTRAINT suppressions_purpose_plain CHECK ((purpose ~ '^([*]|[a-z][a-z0-9_.-]{0,62})$'::text))
);

CREATE TABLE workflow_lanes (
    workflow_id bigint NOT NULL,
    lane text NOT NULL,
    CONSTRAINT workflow_lanes_pkey PRIMARY KEY (workflow_id, lane)
);

CREATE TABLE erasures (
    erasure_id uuid NOT NULL,
    org text NOT NULL,
    subject_hash bytea NOT NULL,
    reason text NOT NULL,
    asked_by text NOT NULL,
    cursor uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    all_sent_at timestamp with time zone,
    CONSTRAINT erasures_pkey PRIMARY KEY (erasure_id),
    CONSTRAINT erasures_hash_length CHECK ((octet_length(subject_hash) = 32))
);

CREATE TABLE erasure_runs (
    erasure_id uuid NOT NULL,
    run_id uuid NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT erasure_runs_pkey PRIMARY KEY (erasure_id, run_id)
);

CREATE TABLE erasure_counts (
    erasure_id uuid NOT NULL,
    run_id uuid NOT NULL,
    kind text NOT NULL,
    erased integer NOT NULL,
    CONSTRAINT erasure_counts_pkey PRIMARY KEY (erasure_id, run_id, kind)
);

CREATE TABLE connections (
    org text NOT NULL,
    name text NOT NULL,
    base_url text DEFAULT ''::text NOT NULL,
    scheme text DEFAULT 'none'::text NOT NULL,
    has_credentials boolean DEFAULT false NOT NULL,
    slots integer,
    rate double precision,
    burst double precision DEFAULT 1 NOT NULL,
    tokens double precision DEFAULT 1 NOT NULL,
    filled_at timestamp with time zone NOT NULL,
    max_failures integer DEFAULT 5 NOT NULL,
    open_ms integer DEFAULT 30000 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    opened integer DEFAULT 0 NOT NULL,
    open_until timestamp with time zone,
    probe_run uuid,
    probe_step integer,
    probe_lease uuid,
    disabled boolean DEFAULT false NOT NULL,
    refused integer DEFAULT 0 NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    probe_path text,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT connections_pkey PRIMARY KEY (org, name),
    CONSTRAINT connections_name_plain CHECK ((name ~ '^[a-z][a-z0-9_.-]{0,99}$'::text)),
    CONSTRAINT connections_positive CHECK (((slots >= 1) AND (slots <= 10000) AND (rate > (0)::double precision) AND (burst >= (1)::double precision) AND (max_failures > 0) AND (open_ms > 0))),
    CONSTRAINT connections_probe_whole CHECK ((((probe_lease IS NULL) = (probe_run IS NULL)) AND ((probe_lease IS NULL) = (probe_step IS NULL)))),
    CONSTRAINT connections_scheme_known CHECK ((scheme = ANY (ARRAY['none'::text, 'bearer'::text, 'basic'::text, 'header'::text, 'fields'::text])))
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.01);

CREATE TABLE connection_secrets (
    org text NOT NULL,
    connection text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    CONSTRAINT connection_secrets_pkey PRIMARY KEY (org, connection)
);

CREATE TABLE connection_slots (
    org text NOT NULL,
    connection text NOT NULL,
    slot integer NOT NULL,
    run_id uuid,
    step integer,
    lease_id uuid,
    CONSTRAINT connection_slots_pkey PRIMARY KEY (org, connection, slot),
    CONSTRAINT connection_slots_held_whole CHECK ((((lease_id IS NULL) = (run_id IS NULL)) AND ((lease_id IS NULL) = (step IS NULL))))
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.01);

CREATE TABLE causes (
    org text NOT NULL,
    cause text NOT NULL,
    cause_id uuid DEFAULT gen_random_uuid() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    CONSTRAINT causes_pkey PRIMARY KEY (org, cause),
    CONSTRAINT causes_id_unique UNIQUE (cause_id)
);

CREATE TABLE step_connections (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    org text NOT NULL,
    connection text NOT NULL,
    CONSTRAINT step_connections_pkey PRIMARY KEY (run_id, step)
) PARTITION BY RANGE (run_id);

CREATE TABLE budgets (
    org text NOT NULL,
    name text NOT NULL,
    budget_id uuid DEFAULT gen_random_uuid() NOT NULL,
    workflow text NOT NULL,
    micros bigint NOT NULL,
    period text NOT NULL,
    currency text NOT NULL,
    spent bigint DEFAULT 0 NOT NULL,
    since timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT budgets_pkey PRIMARY KEY (org, name),
    CONSTRAINT budgets_id_unique UNIQUE (budget_id),
    CONSTRAINT budgets_amounts CHECK (((micros >= 0) AND (spent >= 0))),
    CONSTRAINT budgets_name_plain CHECK ((name ~ '^[a-z][a-z0-9_.-]{0,62}$'::text)),
    CONSTRAINT budgets_period_known CHECK ((period = ANY (ARRAY['day'::text, 'month'::text, 'total'::text])))
) WITH (fillfactor=70);

CREATE TABLE budget_charges (
    org text NOT NULL,
    name text NOT NULL,
    run_id uuid NOT NULL,
    step integer NOT NULL,
    fence integer NOT NULL,
    micros bigint NOT NULL,
    settled boolean DEFAULT false NOT NULL,
    charged_at timestamp with time zone NOT NULL,
    CONSTRAINT budget_charges_pkey PRIMARY KEY (org, name, run_id, step, fence),
    CONSTRAINT budget_charges_amount CHECK ((micros >= 0))
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.01);

CREATE TABLE step_costs (
    run_id uuid NOT NULL,
    step integer NOT NULL,
    estimate bigint NOT NULL,
    reserved bigint DEFAULT 0 NOT NULL,
    spent bigint DEFAULT 0 NOT NULL,
    CONSTRAINT step_costs_pkey PRIMARY KEY (run_id, step),
    CONSTRAINT step_costs_amounts CHECK (((estimate >= 0) AND (reserved >= 0) AND (spent >= 0)))
) PARTITION BY RANGE (run_id);

CREATE TABLE run_spending (
    run_id uuid NOT NULL,
    spent bigint DEFAULT 0 NOT NULL,
    reserved bigint DEFAULT 0 NOT NULL,
    CONSTRAINT run_spending_pkey PRIMARY KEY (run_id),
    CONSTRAINT run_spending_amounts CHECK (((spent >= 0) AND (reserved >= 0)))
) PARTITION BY RANGE (run_id);

CREATE TABLE effect_decisions (
    run_id uuid NOT NULL,
    key text NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    org text NOT NULL,
    decision text NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    CONSTRAINT effect_decisions_pkey PRIMARY KEY (run_id, key, decided_at),
    CONSTRAINT effect_decisions_known CHECK ((decision = ANY (ARRAY['settled'::text, 'refused'::text, 'given_up'::text])))
) PARTITION BY RANGE (run_id);

CREATE TABLE epochs (
    epoch integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    system_id bigint NOT NULL,
    timeline bigint NOT NULL,
    lossless boolean DEFAULT false NOT NULL,
    CONSTRAINT epochs_pkey PRIMARY KEY (epoch)
);

CREATE TABLE members (
    org text NOT NULL,
    member text NOT NULL,
    roles text[] NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT members_pkey PRIMARY KEY (org, member),
    CONSTRAINT members_member_length CHECK (((char_length(member) >= 1) AND (char_length(member) <= 200))),
    CONSTRAINT members_roles_known CHECK (((cardinality(roles) > 0) AND (roles <@ ARRAY['viewer'::text, 'operator'::text, 'approver'::text, 'admin'::text, 'worker'::text])))
);

CREATE TABLE api_keys (
    key_id text NOT NULL,
    org text NOT NULL,
    name text NOT NULL,
    member text,
    roles text[] NOT NULL,
    scopes text[] NOT NULL,
    rate double precision,
    burst integer,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_name_plain CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}$'::text)),
    CONSTRAINT api_keys_rate_whole CHECK ((((rate IS NULL) = (burst IS NULL)) AND (rate > (0)::double precision) AND (burst > 0))),
    CONSTRAINT api_keys_revoked_whole CHECK (((revoked_at IS NULL) = (revoked_by IS NULL))),
    CONSTRAINT api_keys_roles_known CHECK (((cardinality(roles) > 0) AND (roles <@ ARRAY['viewer'::text, 'operator'::text, 'approver'::text, 'admin'::text, 'worker'::text])))
);

CREATE TABLE api_key_secrets (
    prefix text NOT NULL,
    key_id text NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_key_secrets_pkey PRIMARY KEY (prefix),
    CONSTRAINT api_key_secrets_digest_length CHECK ((octet_length(digest) = 32))
);

-- ---- References

ALTER TABLE workflows ADD CONSTRAINT workflows_org_known FOREIGN KEY (org) REFERENCES orgs(org);
ALTER TABLE workflow_nodes ADD CONSTRAINT workflow_nodes_workflow_known FOREIGN KEY (workflow_id) REFERENCES workflows(workflow_id);
ALTER TABLE workflow_lanes ADD CONSTRAINT workflow_lanes_lane_known FOREIGN KEY (lane) REFERENCES lanes(lane);
ALTER TABLE workflow_lanes ADD CONSTRAINT workflow_lanes_workflow_known FOREIGN KEY (workflow_id) REFERENCES workflows(workflow_id);
ALTER TABLE connection_secrets ADD CONSTRAINT connection_secrets_of FOREIGN KEY (org, connection) REFERENCES connections(org, name) ON DELETE CASCADE;
ALTER TABLE connection_slots ADD CONSTRAINT connection_slots_of FOREIGN KEY (org, connection) REFERENCES connections(org, name) ON DELETE CASCADE;
ALTER TABLE members ADD CONSTRAINT members_org_known FOREIGN KEY (org) REFERENCES orgs(org);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_org_known FOREIGN KEY (org) REFERENCES orgs(org);
ALTER TABLE api_key_secrets ADD CONSTRAINT api_key_secrets_of FOREIGN KEY (key_id) REFERENCES api_keys(key_id);

-- ---- Indexes

CREATE INDEX runs_by_age ON runs (age_at) WHERE ((status = 'running'::run_status) AND (age_at IS NOT NULL));
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE ((status = 'running'::run_status) AND (deadline_at IS NOT NULL));
CREATE INDEX runs_by_org ON runs (org, run_id);
CREATE INDEX runs_by_parent ON runs (parent_run, run_id) WHERE (parent_run IS NOT NULL);
CREATE INDEX runs_by_workflow ON runs (org, workflow, run_id);
CREATE INDEX runs_of_jobs ON runs (org, run_id) WHERE (workflow ~~ 'job:%'::text);
CREATE INDEX runs_unfinished ON runs (run_id) WHERE (status = 'running'::run_status);
CREATE INDEX run_tags_by_value ON run_tags (org, key, value, run_id);
CREATE INDEX steps_by_lease_expiry ON steps (lease_expires_at) WHERE (status = 'running'::step_status);
CREATE INDEX steps_parked_on ON steps (org, parked_on, run_id) WHERE (parked_on IS NOT NULL);
CREATE INDEX steps_to_compensate ON steps (run_id, ended_rank) WHERE compensable;
CREATE INDEX steps_unfinished ON steps (run_id, step) WHERE (status = ANY (ARRAY['queued'::step_status, 'running'::step_status, 'backing_off'::step_status, 'waiting'::step_status, 'parked'::step_status]));
CREATE INDEX effects_begun ON effects (run_id, step) WHERE (token IS NOT NULL);
CREATE INDEX effects_open ON effects (begun_at) WHERE (status = ANY (ARRAY['in_flight'::effect_status, 'outcome_unknown'::effect_status, 'needs_review'::effect_status]));
CREATE INDEX start_keys_by_expiry ON start_keys (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX start_keys_by_run ON start_keys (run_id);
CREATE INDEX outbox_blocked ON outbox (org, connection, priority DESC, outbox_id) WHERE (state = 'blocked'::outbox_state);
CREATE INDEX outbox_by_connection ON outbox (org, connection) WHERE ((connection IS NOT NULL) AND (state <> 'blocked'::outbox_state));
CREATE INDEX outbox_in_turn ON outbox (lane, owner, org, priority DESC, job, outbox_id) WHERE (state = 'ready'::outbox_state);
CREATE INDEX outbox_sent ON outbox (lane, owner, outbox_id) WHERE (state = 'sent'::outbox_state);
CREATE INDEX timers_by_run ON timers (run_id);
CREATE INDEX timers_in_turn ON timers (internal, org, next_try);
CREATE UNIQUE INDEX timers_one_per_step ON timers (run_id, step, kind) WHERE (step IS NOT NULL);
CREATE INDEX timers_soonest ON timers (internal, next_try);
CREATE INDEX scopes_running ON scopes (run_id, owner) WHERE (status = 'running'::scope_status);
CREATE INDEX children_that_end_with_it ON children (run_id, step) WHERE ((status = 'running'::text) AND (on_parent_end = 'cancel'::text));
CREATE INDEX correlation_keys_by_run ON correlation_keys (run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX correlation_keys_free ON correlation_keys (touched_at) WHERE (run_id IS NULL);
CREATE INDEX signals_by_expiry ON signals (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX signals_by_run ON signals (run_id);
CREATE UNIQUE INDEX signals_one_per_key_and_id ON signals (org, correlation_key, signal_id) WHERE (correlation_key IS NOT NULL);
CREATE UNIQUE INDEX signals_one_per_run_and_id ON signals (run_id, signal_id) WHERE (correlation_key IS NULL);
CREATE INDEX signals_unseen ON signals (run_id, name) WHERE ((NOT seen) AND (taken_by IS NULL) AND (run_id IS NOT NULL));
CREATE INDEX signals_waiting ON signals (run_id, name, number) WHERE (taken_by IS NULL);
CREATE INDEX signals_waiting_by_key ON signals (org, correlation_key) WHERE ((taken_by IS NULL) AND (correlation_key IS NOT NULL));
CREATE INDEX signal_waits_by_org ON signal_waits (org, opened_at);
CREATE INDEX dead_letters_by_code ON dead_letters (org, code, run_id);
CREATE INDEX dead_letters_by_org ON dead_letters (org, run_id);
CREATE INDEX dead_letters_by_workflow ON dead_letters (org, workflow, run_id);
CREATE INDEX audit_log_by_org ON audit_log (org, audit_id);
CREATE INDEX audit_log_by_target ON audit_log (action, target, audit_id);
CREATE INDEX run_subjects_by_subject ON run_subjects (org, subject_hash, run_id);
CREATE INDEX workflow_lanes_by_lane ON workflow_lanes (lane);
CREATE INDEX erasures_by_org ON erasures (org, erasure_id);
CREATE INDEX erasures_by_subject ON erasures (org, subject_hash);
CREATE INDEX erasure_runs_pending ON erasure_runs (erasure_id) WHERE (ended_at IS NULL);
CREATE INDEX connection_slots_held ON connection_slots (run_id, step) WHERE (lease_id IS NOT NULL);
CREATE INDEX budget_charges_of_run ON budget_charges (run_id, step);
CREATE INDEX api_keys_by_member ON api_keys (org, member) WHERE (member IS NOT NULL);
CREATE INDEX api_keys_by_org ON api_keys (org, key_id);
CREATE UNIQUE INDEX api_keys_one_name ON api_keys (org, name) WHERE (revoked_at IS NULL);
CREATE INDEX api_key_secrets_by_key ON api_key_secrets (key_id);

-- ---- Views

CREATE VIEW ways_of_waiting WITH (security_invoker=true) AS
 SELECT t.run_id,
    t.step
   FROM timers t
  WHERE t.kind = ANY (ARRAY['wait'::text, 'effect_wait'::text, 'fan_out'::text, 'stop_inside'::text, 'start_child'::text, 'child_ended'::text])
UNION ALL
 SELECT s.run_id,
    s.owner AS step
   FROM scopes s
  WHERE s.status = 'running'::scope_status
UNION ALL
 SELECT c.run_id,
    c.step
   FROM children c
     JOIN runs child ON child.run_id = c.child_run
  WHERE child.status = 'running'::run_status
UNION ALL
 SELECT w.run_id,
    w.step
   FROM signal_waits w;

CREATE VIEW standing_causes WITH (security_invoker=true) AS
 SELECT s.run_id,
    s.step
   FROM steps s
     JOIN runs r USING (run_id)
  WHERE s.parked_on = 'pause'::text AND (r.paused OR (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = s.run_id AND t.kind = 'unpark'::text)))
UNION ALL
 SELECT s.run_id,
    s.step
   FROM steps s
  WHERE s.parked_on = 'timer'::text AND (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = s.run_id AND t.step = s.step AND (t.kind = ANY (ARRAY['retry'::text, 'wait'::text])) AND t.next_try = 'infinity'::timestamp with time zone))
UNION ALL
 SELECT s.run_id,
    s.step
   FROM steps s
     JOIN causes c ON c.org = s.org AND c.cause = s.parked_on
  WHERE c.generation = s.parked_generation OR (EXISTS ( SELECT
           FROM timers t
          WHERE (t.run_id = ANY (ARRAY[s.run_id, c.cause_id])) AND t.kind = 'cause_gone'::text AND t.next_try < 'infinity'::timestamp with time zone))
UNION ALL
 SELECT s.run_id,
    s.step
   FROM steps s
  WHERE s.parked_on = 'review'::text AND (EXISTS ( SELECT
           FROM effects e
          WHERE e.run_id = s.run_id AND e.status = 'needs_review'::effect_status AND s.step =
                CASE
                    WHEN e.token IS NULL THEN e.step
                    ELSE e.waiter
                END));

CREATE VIEW places_in_turn WITH (security_invoker=true) AS
 SELECT w.run_id
   FROM exclusive_waiters w
     JOIN exclusive_keys k ON k.org = w.org AND k.key = w.key
     JOIN runs h ON h.run_id = k.holder
  WHERE h.status = 'running'::run_status OR (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = h.run_id AND t.kind = 'hand_over'::text));

CREATE VIEW no_way_forward WITH (security_invoker=true) AS
 SELECT s.org,
    s.run_id,
    s.step,
    s.status::text AS status,
        CASE
            WHEN o.state IS NULL THEN 'queued without an outbox row'::text
            ELSE 'blocked for a cause that does not stand'::text
        END AS missing
   FROM steps s
     JOIN runs r USING (run_id)
     LEFT JOIN outbox o ON o.run_id = s.run_id AND o.step = s.step
  WHERE s.status = 'queued'::step_status AND r.status = 'running'::run_status AND (o.state IS NULL OR o.state = 'blocked'::outbox_state) AND (o.state IS NULL OR o.connection IS NULL OR COALESCE(o.blocked_at < (clock_timestamp() - '00:00:30'::interval), true) AND ((o.org, o.connection) IN ( SELECT c.org,
            c.connection
           FROM connection_room('00:00:30'::interval) c(org, connection, room)
          WHERE c.room > 0)))
UNION ALL
 SELECT s.org,
    s.run_id,
    s.step,
    s.status::text AS status,
    'running under a lease that ended long ago'::text AS missing
   FROM steps s
     JOIN runs r USING (run_id)
     JOIN lanes l ON l.lane = s.lane
  WHERE s.status = 'running'::step_status AND r.status = 'running'::run_status AND s.lease_expires_at < (clock_timestamp() - l.lease_ms::double precision * '00:00:00.001'::interval - '00:00:30'::interval)
UNION ALL
 SELECT s.org,
    s.run_id,
    s.step,
    s.status::text AS status,
    'backing off without a retry timer'::text AS missing
   FROM steps s
     JOIN runs r USING (run_id)
  WHERE s.status = 'backing_off'::step_status AND r.status = 'running'::run_status AND NOT (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind = 'retry'::text AND t.next_try < 'infinity'::timestamp with time zone))
UNION ALL
 SELECT s.org,
    s.run_id,
    s.step,
    s.status::text AS status,
    'waiting for nothing that will come'::text AS missing
   FROM steps s
     JOIN runs r USING (run_id)
  WHERE s.status = 'waiting'::step_status AND r.status = 'running'::run_status AND NOT r.paused AND NOT (EXISTS ( SELECT
           FROM ways_of_waiting w
          WHERE w.run_id = s.run_id AND w.step = s.step
         OFFSET 0))
UNION ALL
 SELECT s.org,
    s.run_id,
    s.step,
    s.status::text AS status,
    'parked for a cause that does not stand'::text AS missing
   FROM steps s
     JOIN runs r USING (run_id)
  WHERE s.status = 'parked'::step_status AND r.status = 'running'::run_status AND NOT (EXISTS ( SELECT
           FROM standing_causes c
          WHERE c.run_id = s.run_id AND c.step = s.step
         OFFSET 0))
UNION ALL
 SELECT o.org,
    c.run_id,
    o.step,
    o.status::text AS status,
    'waiting for a scope in which nothing moves'::text AS missing
   FROM scopes c
     JOIN runs r ON r.run_id = c.run_id
     JOIN steps o ON o.run_id = c.run_id AND o.step = c.owner
     JOIN blocks b ON b.run_id = c.run_id AND b.step = c.owner AND b.generation = c.generation
  WHERE c.status = 'running'::scope_status AND r.status = 'running'::run_status AND NOT r.paused AND o.status = 'waiting'::step_status AND b.ending IS NULL AND NOT (EXISTS ( SELECT
           FROM steps s
          WHERE s.run_id = c.run_id AND s.scope = c.scope AND s.generation = c.generation AND (s.status = ANY (ARRAY['queued'::step_status, 'running'::step_status, 'backing_off'::step_status, 'waiting'::step_status, 'parked'::step_status])))) AND NOT (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = c.run_id AND t.internal AND t.next_try < 'infinity'::timestamp with time zone))
UNION ALL
 SELECT r.org,
    r.run_id,
    NULL::integer AS step,
    r.status::text AS status,
    'running with no unfinished step and no internal event'::text AS missing
   FROM runs r
  WHERE r.status = 'running'::run_status AND NOT r.paused AND NOT (EXISTS ( SELECT
           FROM steps s
          WHERE s.run_id = r.run_id AND (s.status = ANY (ARRAY['queued'::step_status, 'running'::step_status, 'backing_off'::step_status, 'waiting'::step_status, 'parked'::step_status])))) AND NOT (EXISTS ( SELECT
           FROM timers t
          WHERE t.run_id = r.run_id AND t.internal AND t.next_try < 'infinity'::timestamp with time zone)) AND NOT (EXISTS ( SELECT
           FROM children c
             JOIN runs child ON child.run_id = c.child_run
          WHERE r.awaited_children > 0 AND c.run_id = r.run_id AND c.on_parent_end = 'wait'::text AND child.status = 'running'::run_status
         OFFSET 0)) AND NOT (EXISTS ( SELECT
           FROM places_in_turn p
          WHERE p.run_id = r.run_id
         OFFSET 0));

-- ---- Triggers

CREATE TRIGGER workflows_immutable BEFORE DELETE OR UPDATE ON workflows FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workflow_nodes_immutable BEFORE DELETE OR UPDATE ON workflow_nodes FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workflow_lanes_immutable BEFORE DELETE OR UPDATE ON workflow_lanes FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- ---- Rights

GRANT USAGE ON SCHEMA public TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;

GRANT SELECT ON schema_migrations TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON orgs TO perdure_coordinator;
GRANT SELECT ON orgs TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON lanes TO perdure_coordinator;
GRANT SELECT ON lanes TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON workflows TO perdure_coordinator;
GRANT SELECT ON workflows TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON workflow_nodes TO perdure_coordinator;
GRANT SELECT ON workflow_nodes TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON leaders TO perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON leaders TO perdure_coordinator, perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON runs TO perdure_coordinator;
GRANT SELECT ON runs TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON run_tags TO perdure_coordinator;
GRANT SELECT ON run_tags TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON steps TO perdure_coordinator;
GRANT SELECT ON steps TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON attempts TO perdure_coordinator;
GRANT SELECT ON attempts TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON effects TO perdure_coordinator;
GRANT SELECT ON effects TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT ON history TO perdure_coordinator;
GRANT SELECT ON history TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON months TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON start_keys TO perdure_coordinator;
GRANT DELETE, SELECT ON start_keys TO perdure_sweeper;
GRANT SELECT ON start_keys TO perdure_ingest, perdure_relay, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON outbox TO perdure_coordinator;
GRANT SELECT ON outbox TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON timers TO perdure_coordinator;
GRANT SELECT ON timers TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON scopes TO perdure_coordinator;
GRANT SELECT ON scopes TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON blocks TO perdure_coordinator;
GRANT SELECT ON blocks TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON ways_of_waiting TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON standing_causes TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON children TO perdure_coordinator;
GRANT SELECT ON children TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON correlation_keys TO perdure_coordinator;
GRANT DELETE, SELECT ON correlation_keys TO perdure_sweeper;
GRANT SELECT ON correlation_keys TO perdure_ingest, perdure_relay, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON signals TO perdure_coordinator;
GRANT DELETE, SELECT ON signals TO perdure_sweeper;
GRANT SELECT ON signals TO perdure_ingest, perdure_relay, perdure_timer;
GRANT DELETE, INSERT, SELECT ON signal_waits TO perdure_coordinator;
GRANT SELECT ON signal_waits TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT ON dead_letters TO perdure_coordinator;
GRANT SELECT ON dead_letters TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON exclusive_keys TO perdure_coordinator;
GRANT SELECT ON exclusive_keys TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON exclusive_waiters TO perdure_coordinator;
GRANT SELECT ON exclusive_waiters TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON places_in_turn TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT SELECT ON no_way_forward TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON run_migrations TO perdure_coordinator;
GRANT SELECT ON run_migrations TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON run_migration_outcomes TO perdure_coordinator;
GRANT SELECT ON run_migration_outcomes TO perdure_ingest;
GRANT INSERT, SELECT ON audit_log TO perdure_coordinator;
GRANT SELECT ON audit_log TO perdure_ingest;
GRANT DELETE, INSERT, SELECT, UPDATE ON run_subjects TO perdure_coordinator;
GRANT SELECT ON run_subjects TO perdure_ingest;
GRANT DELETE, INSERT, SELECT ON suppressions TO perdure_coordinator;
GRANT SELECT ON suppressions TO perdure_ingest;
GRANT INSERT, SELECT ON workflow_lanes TO perdure_coordinator;
GRANT SELECT ON workflow_lanes TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON erasures TO perdure_coordinator;
GRANT SELECT ON erasures TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON erasure_runs TO perdure_coordinator;
GRANT SELECT ON erasure_runs TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON erasure_counts TO perdure_coordinator;
GRANT SELECT ON erasure_counts TO perdure_ingest;
GRANT DELETE, INSERT, SELECT, UPDATE ON connections TO perdure_coordinator;
GRANT SELECT ON connections TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT DELETE, INSERT, SELECT, UPDATE ON connection_secrets TO perdure_coordinator;
GRANT INSERT, SELECT, UPDATE ON connection_slots TO perdure_coordinator;
GRANT SELECT ON connection_slots TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON causes TO perdure_coordinator;
GRANT SELECT ON causes TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON step_connections TO perdure_coordinator;
GRANT SELECT ON step_connections TO perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer;
GRANT INSERT, SELECT, UPDATE ON budgets TO perdure_coordinator;
GRANT SELECT ON budgets TO perdure_ingest;
GRANT DELETE, INSERT, SELECT, UPDATE ON budget_charges TO perdure_coordinator;
GRANT SELECT ON budget_charges TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON step_costs TO perdure_coordinator;
GRANT SELECT ON step_costs TO perdure_ingest;
GRANT INSERT, SELECT, UPDATE ON run_spending TO perdure_coordinator;
GRANT SELECT ON run_spending TO perdure_ingest;
GRANT INSERT, SELECT ON effect_decisions TO perdure_coordinator;
GRANT SELECT ON effect_decisions TO perdure_ingest;
GRANT INSERT, SELECT ON epochs TO perdure_coordinator;
GRANT SELECT ON epochs TO perdure_ingest, perdure_sweeper;
GRANT DELETE, INSERT, SELECT ON members TO perdure_coordinator;
GRANT SELECT ON members TO perdure_ingest;
GRANT INSERT, SELECT ON api_keys TO perdure_coordinator;
GRANT SELECT ON api_keys TO perdure_ingest;
GRANT INSERT, SELECT ON api_key_secrets TO perdure_coordinator;
GRANT SELECT ON api_key_secrets TO perdure_ingest;

GRANT UPDATE (weight) ON orgs TO perdure_coordinator;
GRANT UPDATE (closed) ON months TO perdure_coordinator;
GRANT UPDATE (expires_at) ON start_keys TO perdure_sweeper;
GRANT UPDATE (state, sent_at, entry_id) ON outbox TO perdure_relay;
GRANT UPDATE (touched_at) ON correlation_keys TO perdure_sweeper;
GRANT UPDATE (expires_at) ON signals TO perdure_sweeper;
GRANT UPDATE (reason) ON effect_decisions TO perdure_coordinator;
GRANT UPDATE (system_id, timeline) ON epochs TO perdure_coordinator;
GRANT UPDATE (roles) ON members TO perdure_coordinator;
GRANT UPDATE (revoked_at, revoked_by) ON api_keys TO perdure_coordinator;
GRANT UPDATE (expires_at, last_used_at) ON api_key_secrets TO perdure_coordinator;

REVOKE EXECUTE ON FUNCTION connection_room(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION connection_room(interval) TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION connection_room(interval) TO perdure_ingest;
GRANT EXECUTE ON FUNCTION connection_room(interval) TO perdure_relay;
GRANT EXECUTE ON FUNCTION connection_room(interval) TO perdure_sweeper;
GRANT EXECUTE ON FUNCTION connection_room(interval) TO perdure_timer;
REVOKE EXECUTE ON FUNCTION ensure_month(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_month(date) TO perdure_sweeper;
REVOKE EXECUTE ON FUNCTION erase_lines(uuid,integer,integer,bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_lines(uuid,integer,integer,bytea) TO perdure_coordinator;
REVOKE EXECUTE ON FUNCTION erase_tags(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tags(uuid) TO perdure_coordinator;
REVOKE EXECUTE ON FUNCTION erase_tries(uuid,integer,integer,bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_tries(uuid,integer,integer,bytea) TO perdure_coordinator;
REVOKE EXECUTE ON FUNCTION forget_scopes(uuid[],text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_scopes(uuid[],text[]) TO perdure_coordinator;
REVOKE EXECUTE ON FUNCTION installation_audit(bigint,integer,text,text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION installation_audit(bigint,integer,text,text) TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION installation_audit(bigint,integer,text,text) TO perdure_ingest;
REVOKE EXECUTE ON FUNCTION isolate_orgs(regclass,text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION known_secrets(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION known_secrets(text[]) TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION known_secrets(text[]) TO perdure_ingest;
REVOKE EXECUTE ON FUNCTION org_weights() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION org_weights() TO perdure_coordinator;
GRANT EXECUTE ON FUNCTION org_weights() TO perdure_ingest;
GRANT EXECUTE ON FUNCTION org_weights() TO perdure_relay;
REVOKE EXECUTE ON FUNCTION runs_past(text[],uuid[],bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION runs_past(text[],uuid[],bigint[]) TO perdure_ingest;

-- ---- Rows

ALTER TABLE orgs ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON orgs TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON orgs FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE workflows ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON workflows TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON workflows FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE workflow_nodes ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON workflow_nodes TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON workflow_nodes FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM workflows owner
  WHERE (owner.workflow_id = workflow_nodes.workflow_id))));
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON runs TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON runs FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE run_tags ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON run_tags TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON run_tags FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON steps TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON steps FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON attempts TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON attempts FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = attempts.run_id))));
ALTER TABLE effects ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON effects TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON effects FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE history ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON history TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON history FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = history.run_id))));
ALTER TABLE start_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON start_keys TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON start_keys FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON outbox TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON outbox FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE timers ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON timers TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON timers FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE scopes ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON scopes TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON scopes FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = scopes.run_id))));
ALTER TABLE blocks ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON blocks TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON blocks FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = blocks.run_id))));
ALTER TABLE children ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON children TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON children FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE correlation_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON correlation_keys TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON correlation_keys FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE signals ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON signals TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON signals FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE signal_waits ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON signal_waits TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON signal_waits FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE dead_letters ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON dead_letters TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON dead_letters FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE exclusive_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON exclusive_keys TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON exclusive_keys FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE exclusive_waiters ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON exclusive_waiters TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON exclusive_waiters FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE run_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON run_migrations TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON run_migrations FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE run_migration_outcomes ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON run_migration_outcomes TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON run_migration_outcomes FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM run_migrations owner
  WHERE (owner.migration_id = run_migration_outcomes.migration_id))));
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON audit_log TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON audit_log FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE run_subjects ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON run_subjects TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON run_subjects FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE suppressions ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON suppressions TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON suppressions FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE workflow_lanes ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON workflow_lanes TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON workflow_lanes FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM workflows owner
  WHERE (owner.workflow_id = workflow_lanes.workflow_id))));
ALTER TABLE erasures ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON erasures TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON erasures FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE erasure_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON erasure_runs TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON erasure_runs FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM erasures owner
  WHERE (owner.erasure_id = erasure_runs.erasure_id))));
ALTER TABLE erasure_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON erasure_counts TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON erasure_counts FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM erasures owner
  WHERE (owner.erasure_id = erasure_counts.erasure_id))));
ALTER TABLE connections ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON connections TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON connections FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE connection_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON connection_secrets TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON connection_secrets FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE connection_slots ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON connection_slots TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON connection_slots FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE causes ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON causes TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON causes FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE step_connections ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON step_connections TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON step_connections FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE budgets ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON budgets TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON budgets FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE budget_charges ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON budget_charges TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON budget_charges FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE step_costs ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON step_costs TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON step_costs FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = step_costs.run_id))));
ALTER TABLE run_spending ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON run_spending TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON run_spending FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM runs owner
  WHERE (owner.run_id = run_spending.run_id))));
ALTER TABLE effect_decisions ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON effect_decisions TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON effect_decisions FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE members ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON members TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON members FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON api_keys TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON api_keys FOR SELECT TO perdure_ingest USING ((org = NULLIF(current_setting('perdure.org'::text, true), ''::text)));
ALTER TABLE api_key_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_orgs ON api_key_secrets TO perdure_coordinator, perdure_relay, perdure_sweeper, perdure_timer USING (true) WITH CHECK (true);
CREATE POLICY own_org ON api_key_secrets FOR SELECT TO perdure_ingest USING ((EXISTS ( SELECT
   FROM api_keys owner
  WHERE (owner.key_id = api_key_secrets.key_id))));

DO $$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_sweeper, perdure_timer', current_database());
END
$$;

-- This month and the next two.
SELECT ensure_month((date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + n * interval '1 month')::date)
  FROM generate_series(0, 2) AS n;
