-- The statements of these roles take their rows as arrays, and a plan for any values is the right one for all of
-- them. Left to itself the server prefers a plan for the values at hand where the arrays are short, and makes it
-- anew each time, at three times the cost of running it. Other runners may be doing the same (0001).
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['perdure_coordinator', 'perdure_timer', 'perdure_sweeper'] LOOP
        FOR attempt IN 1..10 LOOP
            EXIT WHEN EXISTS (
                SELECT FROM pg_roles WHERE rolname = role_name AND rolconfig @> ARRAY['plan_cache_mode=force_generic_plan']
            );
            BEGIN
                EXECUTE format('ALTER ROLE %I SET plan_cache_mode = force_generic_plan', role_name);
            EXCEPTION WHEN internal_error THEN
                IF attempt = 10 THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END LOOP;
END
$$;
