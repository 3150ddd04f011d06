-- Timers and internal events (protocol p5).

-- name: put_off
-- Moves the next try of timers: 1 s after the first failure, twice as long after each, 5 min at most.
UPDATE timers
   SET tries = tries + 1,
       next_try = clock_timestamp() + least(300, power(2, least(tries, 20))) * interval '1 s'
 WHERE timer_id IN (
     SELECT timer_id FROM timers WHERE timer_id = ANY ($1::bigint[]) ORDER BY timer_id FOR UPDATE SKIP LOCKED
 )

-- name: drop_orphans
-- Deletes timers of runs that are no more.
DELETE FROM timers AS t
 WHERE t.timer_id = ANY ($1::bigint[]) AND NOT EXISTS (SELECT FROM runs AS r WHERE r.run_id = t.run_id)
