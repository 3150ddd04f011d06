-- Who may do what. The worker has no role: it has no business here.
DO $$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper', current_database());
END
$$;
GRANT USAGE ON SCHEMA public TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO perdure_coordinator, perdure_ingest, perdure_relay, perdure_timer, perdure_sweeper;

GRANT INSERT ON workflows, workflow_nodes, runs, run_tags, steps, attempts, effects, history, start_keys, outbox, timers TO perdure_coordinator;
GRANT UPDATE ON runs, steps, effects, start_keys, outbox, timers TO perdure_coordinator;
GRANT DELETE ON outbox, timers, start_keys TO perdure_coordinator;

GRANT UPDATE (state, sent_at, entry_id) ON outbox TO perdure_relay;
GRANT INSERT, UPDATE, DELETE ON leaders TO perdure_relay, perdure_timer, perdure_sweeper;

-- The sweeper makes the months ahead; the function runs as the schema's owner, who owns the partitions.
ALTER FUNCTION ensure_month(date) SECURITY DEFINER SET search_path = public, pg_temp;
REVOKE EXECUTE ON FUNCTION ensure_month(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_month(date) TO perdure_sweeper;
GRANT DELETE, UPDATE (expires_at) ON start_keys TO perdure_sweeper; -- UPDATE only to lock rows before deleting them

-- This month and the next two, so that the first run has a partition on the first day. Made last, so that
-- they are like every later month: rights are on the parents alone.
SELECT ensure_month((date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + n * interval '1 month')::date)
  FROM generate_series(0, 2) AS n;

-- To see how old the oldest transaction of any role is. An owner that may not grant this does without: the
-- measure then sees the sweeper's own transactions only.
DO $$
BEGIN
    GRANT pg_read_all_stats TO perdure_sweeper;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'perdure_sweeper sees no transactions of others: grant it pg_read_all_stats';
END
$$;
