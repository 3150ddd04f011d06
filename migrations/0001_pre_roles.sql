-- Login roles, one per service, each with the time-outs that rule R13 asks for. Passwords are the
-- operator's: ALTER ROLE perdure_coordinator PASSWORD '...'. Roles belong to the whole server, so several
-- databases (and several runners) may find them made already.
DO $$
DECLARE
    service text;
BEGIN
    FOREACH service IN ARRAY ARRAY['coordinator', 'ingest', 'relay', 'timer', 'sweeper'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE perdure_%s LOGIN', service);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        BEGIN
            EXECUTE format('ALTER ROLE perdure_%s SET idle_in_transaction_session_timeout = ''3s''', service);
            EXECUTE format('ALTER ROLE perdure_%s SET statement_timeout = ''10s''', service);
            EXECUTE format('ALTER ROLE perdure_%s SET lock_timeout = ''5s''', service);
        EXCEPTION WHEN internal_error THEN
            NULL; -- another runner is setting the same values at this moment
        END;
    END LOOP;
END
$$;
