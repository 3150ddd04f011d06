-- The relay keeps its plans, which cost it more than its statements do. One that is made on an empty outbox must serve
-- a burst too, so that none of them may read all of a table. As in 0001, others may alter the role at this moment.
DO $$
DECLARE
    wanted constant text[] := ARRAY[
        'enable_seqscan=off', 'enable_hashjoin=off', 'enable_mergejoin=off', 'jit=off', 'plan_cache_mode=force_generic_plan'
    ];
    setting text;
BEGIN
    FOR attempt IN 1..10 LOOP
        EXIT WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'perdure_relay' AND rolconfig @> wanted);
        BEGIN
            FOREACH setting IN ARRAY wanted LOOP
                EXECUTE format(
                    'ALTER ROLE perdure_relay SET %I = %L', split_part(setting, '=', 1), split_part(setting, '=', 2)
                );
            END LOOP;
        EXCEPTION WHEN internal_error THEN
            IF attempt = 10 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
