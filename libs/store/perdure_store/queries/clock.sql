-- The one clock that decides (R7).

-- name: now_ms
-- The database's time in milliseconds since 1970.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
