-- Hints that there is something new.

-- name: notify
-- Wakes the listeners of some channels.
SELECT pg_notify(channel, '') FROM unnest($1::text[]) AS channel
