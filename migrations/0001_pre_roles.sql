-- Login roles, one per service, each with the time-outs that rule R13 asks for. Passwords are the
-- operator's: ALTER ROLE perdure_coordinator PASSWORD '...'. Roles belong to the whole server, so several
-- databases (and several runners) may find them made already, or being made at this moment: another's
-- uncommitted row is a duplicate, another's committed change a tuple that was concurrently updated
-- (internal_error). Either way the next look sees what the other did.
DO $$
DECLARE
    role_name text;
    time_outs constant text[] := ARRAY[
        'idle_in_transaction_session_timeout=3s', 'statement_timeout=10s', 'lock_timeout=5s',
        'tcp_user_timeout=10s'
    ];
    -- These only look rows up by key or at the head of an index: a plan that is made while a table is small
    -- must not scan it when it has grown.
    key_look_ups constant text[] := ARRAY[
        'enable_seqscan=off', 'enable_hashjoin=off', 'enable_mergejoin=off', 'jit=off'
    ];
    -- Lists are planned with the values asked for: a plan for any values may touch every month.
    own_plans constant text[] := ARRAY['plan_cache_mode=force_custom_plan', 'jit=off'];
    wanted text[];
    setting text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'perdure_coordinator', 'perdure_ingest', 'perdure_relay', 'perdure_timer', 'perdure_sweeper'
    ] LOOP
        wanted := time_outs;
        IF role_name IN ('perdure_coordinator', 'perdure_timer', 'perdure_sweeper') THEN
            wanted := wanted || key_look_ups;
        ELSIF role_name = 'perdure_ingest' THEN
            wanted := wanted || own_plans;
        END IF;
        FOR attempt IN 1..10 LOOP
            EXIT WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role_name AND rolconfig @> wanted);
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
                    EXECUTE format('CREATE ROLE %I LOGIN', role_name);
                END IF;
                FOREACH setting IN ARRAY wanted LOOP
                    EXECUTE format(
                        'ALTER ROLE %I SET %I = %L',
                        role_name, split_part(setting, '=', 1), split_part(setting, '=', 2)
                    );
                END LOOP;
            EXCEPTION WHEN duplicate_object OR unique_violation OR internal_error THEN
                IF attempt = 10 THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END LOOP;
END
$$;
