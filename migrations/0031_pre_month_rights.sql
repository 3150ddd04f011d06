-- The coordinator's most frequent statements name the tables of a month, so that they do not open those of all others.

-- A month's table is as open to the coordinator as its parent is. To nobody else: whoever is kept to an org's rows is so
-- by the parent's policy.
CREATE FUNCTION open_to_coordinator(child regclass, parent regclass) RETURNS void
LANGUAGE plpgsql
AS $$
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
$$;

CREATE OR REPLACE FUNCTION ensure_month(first_day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
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
$$;

SELECT open_to_coordinator(i.inhrelid::regclass, i.inhparent::regclass)
  FROM pg_inherits AS i JOIN pg_partitioned_table AS p ON p.partrelid = i.inhparent;
