-- Budgets and what tries cost (design section 11).

-- name: lock
-- Locks the budgets that hold for workflows of orgs, in their order, before any run (R14).
SELECT b.org, b.name FROM budgets AS b
 WHERE EXISTS (
       SELECT FROM unnest($1::text[], $2::text[]) AS u (org, workflow)
        WHERE b.org = u.org AND b.workflow IN ('', u.workflow)
 )
 ORDER BY b.org, b.name FOR UPDATE

-- name: close
-- Adds what was settled to locked budgets and begins their new periods. So is what was set aside for a try that is over
-- and that nothing settled, because the run went to a version in which its node costs nothing.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), settled AS (
    DELETE FROM budget_charges AS c USING unnest($1::text[], $2::text[]) AS u (org, name)
     WHERE c.org = u.org AND c.name = u.name
       AND (c.settled OR NOT EXISTS (
               SELECT FROM steps AS s
                WHERE s.run_id = c.run_id AND s.step = c.step AND s.status = 'running' AND s.fence = c.fence
           ))
    RETURNING c.org, c.name, c.micros, c.charged_at
)
UPDATE budgets AS b
   SET since = period_start(b.period, clock.now),
       spent = CASE WHEN b.since = period_start(b.period, clock.now) THEN b.spent ELSE 0 END
             + coalesce((SELECT sum(s.micros) FROM settled AS s
                          WHERE s.org = b.org AND s.name = b.name
                            AND s.charged_at >= period_start(b.period, clock.now)), 0)
  FROM clock, unnest($1::text[], $2::text[]) AS u (org, name)
 WHERE b.org = u.org AND b.name = u.name

-- name: read_left
-- Reads what is left of locked budgets: what is set aside counts as spent.
SELECT b.org, b.name, b.workflow,
       (b.micros - b.spent - coalesce((SELECT sum(c.micros) FROM budget_charges AS c
                                        WHERE c.org = b.org AND c.name = b.name), 0))::bigint AS left_over
  FROM budgets AS b JOIN unnest($1::text[], $2::text[]) AS u (org, name) ON u.org = b.org AND u.name = b.name
 ORDER BY b.org, b.name

-- name: load_costs
-- Loads what steps of a locked run cost.
SELECT step, estimate, reserved, spent FROM step_costs WHERE run_id = $1 AND step = ANY ($2::integer[])

-- name: load_spending
-- Loads what a locked run has spent and set aside.
SELECT spent, reserved FROM run_spending WHERE run_id = $1

-- name: put_costs
-- Keeps what tries of steps are estimated to cost.
INSERT INTO step_costs (run_id, step, estimate)
SELECT u.run_id, u.step, u.estimate FROM :costs
ON CONFLICT ON CONSTRAINT step_costs_pkey DO UPDATE SET estimate = excluded.estimate

-- name: charge
-- Sets aside what tries may cost: on the step, on the run, and on each budget.
WITH charged AS (
    SELECT u.run_id, u.step, u.fence, u.micros FROM :charges
), steps AS (
    UPDATE step_costs AS c SET reserved = u.micros FROM charged AS u WHERE c.run_id = u.run_id AND c.step = u.step
)
INSERT INTO run_spending (run_id, reserved)
SELECT run_id, sum(micros) FROM charged GROUP BY run_id ORDER BY run_id
ON CONFLICT ON CONSTRAINT run_spending_pkey DO UPDATE SET reserved = run_spending.reserved + excluded.reserved

-- name: charge_budgets
-- Sets aside what tries may cost on budgets, which are locked.
INSERT INTO budget_charges (org, name, run_id, step, fence, micros, charged_at)
SELECT u.org, u.name, u.run_id, u.step, u.fence, u.micros, clock_timestamp() FROM :budget_charges

-- name: settle
-- Settles what was set aside with what the tries came to. No budget is locked: its next holder adds it.
WITH settled AS (
    SELECT u.run_id, u.step, u.fence, u.reserved, u.paid FROM :settled
), steps AS (
    UPDATE step_costs AS c SET reserved = 0, spent = c.spent + u.paid
      FROM settled AS u WHERE c.run_id = u.run_id AND c.step = u.step
), charges AS (
    UPDATE budget_charges AS b SET micros = u.paid, settled = true
      FROM settled AS u WHERE b.run_id = u.run_id AND b.step = u.step AND b.fence = u.fence AND NOT b.settled
), sums AS (
    SELECT run_id, sum(reserved) AS reserved, sum(paid) AS paid FROM settled GROUP BY run_id
)
UPDATE run_spending AS s SET reserved = s.reserved - u.reserved, spent = s.spent + u.paid
  FROM sums AS u WHERE s.run_id = u.run_id

-- name: await_period
-- Sets the event of a budget's next period, unless it has one or is for good: steps were parked on it.
INSERT INTO timers (org, run_id, kind, internal, due_at, next_try)
SELECT b.org, b.budget_id, 'new_period', true, due.at, due.at
  FROM budgets AS b CROSS JOIN LATERAL (SELECT period_end(b.period, clock_timestamp()) AS at) AS due
 WHERE b.org = $1 AND b.name = $2 AND b.period <> 'total'
   AND NOT EXISTS (SELECT FROM timers AS t WHERE t.run_id = b.budget_id)

-- name: of_period
-- The budget whose next period a timer begins, if its id is one.
SELECT name FROM budgets WHERE budget_id = $1 AND org = $2

-- name: take_period
-- Takes a due timer of a budget; none where another delivery took it.
DELETE FROM timers WHERE timer_id = $1 AND run_id = $2 AND due_at <= clock_timestamp() RETURNING timer_id

-- name: put
-- Makes a budget or changes it; what was spent stays, unless its period is another one.
INSERT INTO budgets AS b (org, name, workflow, micros, period, currency, since, changed_at)
SELECT $1, $2, $3, $4, $5, $6, period_start($5, c.now), c.now FROM (SELECT clock_timestamp() AS now) AS c
ON CONFLICT ON CONSTRAINT budgets_pkey DO UPDATE
   SET workflow = excluded.workflow, micros = excluded.micros, currency = excluded.currency,
       spent = CASE WHEN b.period = excluded.period THEN b.spent ELSE 0 END,
       since = CASE WHEN b.period = excluded.period THEN b.since ELSE excluded.since END,
       period = excluded.period, changed_at = excluded.changed_at

-- name: list
-- Reads the budgets of an org with what is spent and set aside in the period that holds now; of one name, or all.
SELECT b.name, b.workflow, b.micros, b.period, b.currency, b.changed_at,
       nullif(period_start(b.period, clock.now), '-infinity') AS since,
       nullif(period_end(b.period, clock.now), 'infinity') AS until,
       (CASE WHEN b.since = period_start(b.period, clock.now) THEN b.spent ELSE 0 END
        + coalesce((SELECT sum(c.micros) FROM budget_charges AS c
                     WHERE c.org = b.org AND c.name = b.name AND c.settled
                       AND c.charged_at >= period_start(b.period, clock.now)), 0))::bigint AS spent,
       coalesce((SELECT sum(c.micros) FROM budget_charges AS c
                  WHERE c.org = b.org AND c.name = b.name AND NOT c.settled), 0)::bigint AS reserved,
       (SELECT count(*) FROM steps AS s WHERE s.org = b.org AND s.parked_on = 'budget:' || b.name) AS parked
  FROM budgets AS b CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
 WHERE b.org = $1 AND ($2 = '' OR b.name = $2)
 ORDER BY b.name
