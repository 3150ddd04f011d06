-- The databases that this one was (protocol p4). Changed by an operator, as the owner of the schema.

-- name: read
-- Tells of the latest epoch, and whether it was begun on the database as it is.
SELECT e.epoch, CASE WHEN e.epoch > 0 THEN e.begun_at END AS begun_at, e.lossless,
       e.system_id = s.system_identifier
       AND (e.timeline = database_timeline() OR (e.lossless AND e.timeline < database_timeline())) AS is_open
  FROM epochs AS e CROSS JOIN pg_control_system() AS s ORDER BY e.epoch DESC LIMIT 1

-- name: begin_next
-- Begins the next epoch on the database as it is.
INSERT INTO epochs (epoch, begun_at, system_id, timeline, lossless)
SELECT e.epoch + 1, clock_timestamp(), s.system_identifier, database_timeline(), e.lossless
  FROM pg_control_system() AS s CROSS JOIN epochs AS e
 ORDER BY e.epoch DESC LIMIT 1
RETURNING epoch

-- name: declare_lossless
-- Has the latest epoch go on, on the database as it is.
UPDATE epochs AS e SET system_id = s.system_identifier, timeline = database_timeline()
  FROM pg_control_system() AS s
 WHERE e.epoch = (SELECT max(epoch) FROM epochs)
RETURNING e.epoch

-- name: trust
-- Has the latest epoch go on, on the database as it is, and says whether it does after every failover to come.
UPDATE epochs AS e SET system_id = s.system_identifier, timeline = database_timeline(), lossless = $1
  FROM pg_control_system() AS s
 WHERE e.epoch = (SELECT max(epoch) FROM epochs)
RETURNING e.epoch
