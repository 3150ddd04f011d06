-- Everything about the schema that a difference could hide in, one fact a row, read from the catalogue.
SELECT 'relation' AS kind, c.relname::text AS name,
       concat_ws(' | ', c.relkind, c.relpersistence, c.reloptions::text, c.relrowsecurity::text,
                 pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid)) AS fact
  FROM pg_class AS c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind <> 'i'
UNION ALL
SELECT 'column', format('%s.%s', c.relname, a.attname),
       concat_ws(' | ', row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum),
                 format_type(a.atttypid, a.atttypmod), a.attnotnull::text, a.attidentity,
                 a.attgenerated, a.attcollation::text, pg_get_expr(d.adbin, d.adrelid))
  FROM pg_attribute AS a
  JOIN pg_class AS c ON c.oid = a.attrelid
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')
   AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', format('%s.%s', c.relname, k.conname),
       concat_ws(' | ', k.contype, pg_get_constraintdef(k.oid), k.condeferrable::text, k.convalidated::text)
  FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
 WHERE c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', i.relname::text,
       concat_ws(' | ', pg_get_indexdef(x.indexrelid), x.indisvalid::text, i.reloptions::text)
  FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid
 WHERE i.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'enum', t.typname::text, string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder)
  FROM pg_enum AS e JOIN pg_type AS t ON t.oid = e.enumtypid
 WHERE t.typnamespace = 'public'::regnamespace
 GROUP BY t.typname
UNION ALL
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
  FROM pg_proc AS p
 WHERE p.pronamespace = 'public'::regnamespace
UNION ALL
SELECT 'view', c.relname::text, pg_get_viewdef(c.oid)
  FROM pg_class AS c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('v', 'm')
UNION ALL
SELECT 'trigger', format('%s.%s', c.relname, t.tgname),
       concat_ws(' | ', pg_get_triggerdef(t.oid), t.tgenabled)
  FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'policy', format('%s.%s', c.relname, p.polname),
       concat_ws(' | ', p.polcmd, p.polpermissive::text,
                 (SELECT string_agg(role::regrole::text, ', ' ORDER BY role::regrole::text) FROM unnest(p.polroles) AS role),
                 pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid))
  FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
 WHERE c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'right', given.object, format('%s to %s%s', acl.privilege_type,
       CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END,
       CASE WHEN acl.is_grantable THEN ' with grant option' END)
  FROM (
      SELECT c.relname::text AS object, c.relacl AS rights FROM pg_class AS c
       WHERE c.relnamespace = 'public'::regnamespace
      UNION ALL
      SELECT format('%s.%s', a.attrelid::regclass, a.attname), a.attacl FROM pg_attribute AS a
       WHERE a.attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
      UNION ALL
      SELECT p.oid::regprocedure::text, p.proacl FROM pg_proc AS p
       WHERE p.pronamespace = 'public'::regnamespace
      UNION ALL
      SELECT 'schema ' || n.nspname, n.nspacl FROM pg_namespace AS n WHERE n.nspname = 'public'
      UNION ALL
      SELECT 'database', d.datacl FROM pg_database AS d WHERE d.datname = current_database()
  ) AS given
  CROSS JOIN LATERAL aclexplode(given.rights) AS acl
