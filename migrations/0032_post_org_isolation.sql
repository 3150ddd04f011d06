-- Ingest reads only rows of the org that its transaction is for. Its rights are on parents alone, so no partition is
-- read past its parent's policy.
SELECT isolate_orgs(guarded.name)
  FROM unnest(ARRAY[
       'orgs', 'workflows', 'runs', 'run_tags', 'steps', 'effects', 'start_keys', 'outbox', 'timers', 'children',
       'correlation_keys', 'signals', 'signal_waits', 'dead_letters', 'exclusive_keys', 'exclusive_waiters',
       'run_migrations', 'audit_log', 'run_subjects', 'suppressions', 'erasures', 'connections',
       'connection_secrets', 'connection_slots', 'causes', 'step_connections', 'budgets', 'budget_charges',
       'effect_decisions'
  ]::regclass[]) AS guarded (name);

-- What has no org of its own belongs to what it hangs on, which is read under its own policy.
SELECT isolate_orgs(hanging.name::regclass, format(
           'EXISTS (SELECT FROM %1$I AS owner WHERE owner.%2$I = %3$I.%2$I)', hanging.owner, hanging.key, hanging.name
       ))
  FROM (VALUES
       ('attempts', 'runs', 'run_id'), ('history', 'runs', 'run_id'), ('scopes', 'runs', 'run_id'),
       ('blocks', 'runs', 'run_id'), ('step_costs', 'runs', 'run_id'), ('run_spending', 'runs', 'run_id'),
       ('workflow_nodes', 'workflows', 'workflow_id'), ('workflow_lanes', 'workflows', 'workflow_id'),
       ('run_migration_outcomes', 'run_migrations', 'migration_id'),
       ('erasure_runs', 'erasures', 'erasure_id'), ('erasure_counts', 'erasures', 'erasure_id')
  ) AS hanging (name, owner, key);
