-- Jobs among the runs of an org: runs of workflows that are job types. Other runs do not pay for it.

CREATE INDEX runs_of_jobs ON runs (org, run_id) WHERE workflow LIKE 'job:%';
-- In months that are there already its parts are named as ensure_month names those of later ones.
DO $$
DECLARE
    renamed record;
BEGIN
    FOR renamed IN
        SELECT part.relname AS old, 'runs_of_jobs' || right(month.relname, 7) AS new
          FROM pg_inherits AS i
          JOIN pg_class AS part ON part.oid = i.inhrelid
          JOIN pg_index AS x ON x.indexrelid = part.oid
          JOIN pg_class AS month ON month.oid = x.indrelid
         WHERE i.inhparent = 'runs_of_jobs'::regclass
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', renamed.old, renamed.new);
    END LOOP;
END
$$;
