"""What the port over PostgreSQL asks and does as an administrator, whom no role hinders."""

from __future__ import annotations

# Time passes by moving every instant that something waits for into the past.
ADVANCE = """
UPDATE timers SET due_at = due_at - $1 * interval '1 s', next_try = next_try - $1 * interval '1 s';
UPDATE steps SET lease_expires_at = lease_expires_at - $1 * interval '1 s',
                 try_expires_at = try_expires_at - $1 * interval '1 s' WHERE status = 'running';
UPDATE effects SET begun_at = begun_at - $1 * interval '1 s',
                   lease_expires_at = lease_expires_at - $1 * interval '1 s';
UPDATE runs SET created_at = created_at - $1 * interval '1 s';
UPDATE epochs SET begun_at = begun_at - $1 * interval '1 s' WHERE epoch > 0;
UPDATE runs SET age_at = age_at - $1 * interval '1 s',
                deadline_at = deadline_at - $1 * interval '1 s';
UPDATE signals SET received_at = received_at - $1 * interval '1 s',
                   expires_at = expires_at - $1 * interval '1 s';
UPDATE connections SET open_until = open_until - $1 * interval '1 s',
                       filled_at = filled_at - $1 * interval '1 s';
UPDATE start_keys SET expires_at = expires_at - $1 * interval '1 s' WHERE expires_at IS NOT NULL
"""
TIMERS = """
SELECT timer_id, org, run_id, kind, step,
       CASE WHEN next_try = 'infinity' THEN 'infinity'::float8
            ELSE extract(epoch FROM due_at - clock_timestamp())::float8 END AS remaining
  FROM timers ORDER BY due_at, timer_id
"""
RUN = """
SELECT *, (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms FROM runs WHERE run_id = $1
"""
STEPS = "SELECT *, NULL::float8 AS lease_left FROM steps WHERE run_id = $1 ORDER BY step"
EFFECTS = """
SELECT *, 0::float8 AS age,
       extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS lease_left
  FROM effects WHERE run_id = $1 ORDER BY key
"""
NEXT_EPOCH = """
INSERT INTO epochs SELECT max(epoch) + 1, clock_timestamp(), max(system_id), database_timeline()
  FROM epochs
"""
DECISIONS = """
SELECT key, decision, actor FROM effect_decisions WHERE run_id = $1 ORDER BY decided_at
"""
SIGNALS = """
SELECT signal_id, name, data, correlation_key AS key, seen
  FROM signals WHERE run_id = $1 AND taken_by IS NULL ORDER BY number
"""
MIGRATIONS = """
SELECT migration_id FROM run_migration_outcomes JOIN run_migrations USING (migration_id)
 WHERE run_id = $1 ORDER BY created_at
"""
OF_RUNS = (
    "exclusive_waiters", "exclusive_keys",
    "dead_letters",
    "connections", "causes", "step_connections",
    "history", "outbox", "timers", "scopes", "blocks",
    "children", "effect_decisions", "effects", "attempts", "steps", "run_tags",
    "signals", "signal_waits", "correlation_keys", "start_keys", "runs",
    "run_migrations", "run_migration_outcomes", "run_subjects", "suppressions",
    "erasures", "erasure_runs", "erasure_counts",
    "budgets", "budget_charges", "step_costs", "run_spending", "audit_log",
)  # fmt: skip
CLEAR = "; ".join(
    [*(f"DELETE FROM {table}" for table in OF_RUNS), "DELETE FROM epochs WHERE epoch > 0"]
)
