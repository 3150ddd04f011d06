-- What row-level security needs before it is on: the release before does not yet say for which org it reads.

-- Lets ingest read only rows of the org that its transaction is for, `SET LOCAL perdure.org = '...'`: without one,
-- none. The other roles serve all orgs. Each new table with an org calls this; `mine` is for tables without one of
-- their own, which belong to whatever they hang on.
CREATE FUNCTION isolate_orgs(
    isolated regclass, mine text DEFAULT 'org = nullif(current_setting(''perdure.org'', true), '''')'
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', isolated);
    EXECUTE format('CREATE POLICY own_org ON %s FOR SELECT TO perdure_ingest USING (%s)', isolated, mine);
    EXECUTE format(
        'CREATE POLICY all_orgs ON %s TO perdure_coordinator, perdure_relay, perdure_timer, perdure_sweeper'
        ' USING (true) WITH CHECK (true)', isolated
    );
END
$$;
REVOKE EXECUTE ON FUNCTION isolate_orgs(regclass, text) FROM PUBLIC;

-- Views read as whoever asks, so that they show no more than the tables do.
ALTER VIEW ways_of_waiting SET (security_invoker = true);
ALTER VIEW standing_causes SET (security_invoker = true);
ALTER VIEW places_in_turn SET (security_invoker = true);
ALTER VIEW no_way_forward SET (security_invoker = true);

-- Which of the runs that people watch, of any org, are past the revision that is known of them. It tells no more
-- than that; what they are is read org by org.
CREATE FUNCTION runs_past(orgs text[], run_ids uuid[], revisions bigint[])
RETURNS TABLE (org text, run_id uuid) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.org, r.run_id
      FROM unnest(orgs, run_ids, revisions) AS wanted (org, run_id, revision)
      JOIN runs AS r ON r.run_id = wanted.run_id AND r.org = wanted.org AND r.revision > wanted.revision
     WHERE r.run_id = ANY (run_ids)
$$;
REVOKE EXECUTE ON FUNCTION runs_past(text[], uuid[], bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION runs_past(text[], uuid[], bigint[]) TO perdure_ingest;

-- How orgs are weighed, for whoever runs the installation.
CREATE FUNCTION org_weights()
RETURNS TABLE (org text, weight smallint) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT o.org, o.weight FROM orgs AS o ORDER BY o.org
$$;
REVOKE EXECUTE ON FUNCTION org_weights() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION org_weights() TO perdure_coordinator, perdure_ingest, perdure_relay;

-- Lines of the audit log that are about no org, for whoever runs the installation: the newest below an id.
CREATE FUNCTION installation_audit(below bigint, most integer)
RETURNS TABLE (audit_id bigint, org text, at timestamptz, actor text, action text, target text, details bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.audit_id, a.org, a.at, a.actor, a.action, a.target, a.details
      FROM audit_log AS a WHERE a.org IS NULL AND a.audit_id < below ORDER BY a.audit_id DESC LIMIT most
$$;
REVOKE EXECUTE ON FUNCTION installation_audit(bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION installation_audit(bigint, integer) TO perdure_coordinator, perdure_ingest;
