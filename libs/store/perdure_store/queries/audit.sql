-- The audit log: who did what as an operator or for an org.

-- name: add
-- Adds a line.
INSERT INTO audit_log (org, actor, action, target, details) VALUES ($1, $2, $3, $4, $5)

-- name: add_orders
-- Adds a line for each order.
INSERT INTO audit_log (org, actor, action, target, details)
SELECT u.org, u.actor, u.action, u.target, u.details FROM :orders

-- name: page
-- The newest $3 lines below id $2 of an org; of one action or target, or all.
SELECT audit_id, org, at, actor, action, target, details
  FROM audit_log
 WHERE org = $1 AND audit_id < $2
   AND ($4 = '' OR action = $4) AND ($5 = '' OR target = $5)
 ORDER BY audit_id DESC LIMIT $3

-- name: page_of_installation
-- The newest $2 lines below id $1 that are about no org; of one action or target, or all.
SELECT audit_id, org, at, actor, action, target, details FROM installation_audit($1, $2, $3, $4)
