-- The elected holders of duties. Only the database clock decides whether a lease stands (R7).

-- name: acquire_or_renew
-- Takes a duty that is free, lapsed or one's own for $3 of time; answers the seconds granted, or no row.
INSERT INTO leaders AS l (duty, holder, expires_at)
VALUES ($1, $2, clock_timestamp() + $3::interval)
ON CONFLICT (duty) DO UPDATE
   SET holder = excluded.holder, expires_at = clock_timestamp() + $3::interval
 WHERE l.holder = excluded.holder OR l.expires_at <= clock_timestamp()
RETURNING extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS remaining

-- name: release
-- Gives a duty back, if it is still one's own, so that another need not wait for its end.
DELETE FROM leaders WHERE duty = $1 AND holder = $2 RETURNING duty
