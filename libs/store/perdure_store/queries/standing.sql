-- What pauses, endings and people change of a run: rarely, so apart from the hot path (protocol p8).

-- name: write
-- Writes the standing of runs, which are locked.
UPDATE runs AS r
   SET paused = u.paused, pauses = u.pauses, dead_lettered = u.dead_lettered, recounted = u.recounted,
       ending = u.ending::run_status, undo_below = u.undo_below, compensations = u.compensations,
       uncompensated = u.uncompensated, erased = u.erased, has_effects = u.has_effects,
       output = coalesce(u.output, r.output)
  FROM :standings
 WHERE r.run_id = u.run_id

-- name: let_timers_go
-- Has held timers delivered as late as they are: those of steps, or where the step is null, all but parked steps'.
WITH let_go AS (
    SELECT t.timer_id
      FROM unnest($1::uuid[], $2::integer[]) AS u (run_id, step)
      JOIN timers AS t ON t.run_id = u.run_id
     WHERE t.next_try = 'infinity'
       AND (t.step = u.step
            OR (u.step IS NULL
                AND NOT EXISTS (
                    SELECT FROM steps AS s WHERE s.run_id = t.run_id AND s.step = t.step AND s.status = 'parked'
                )))
     ORDER BY t.timer_id FOR UPDATE OF t
)
UPDATE timers AS t SET next_try = t.due_at, tries = 0 FROM let_go WHERE t.timer_id = let_go.timer_id

-- name: hold_timers
-- Has timers delivered no more until they are let go.
UPDATE timers SET next_try = 'infinity'
 WHERE timer_id IN (SELECT timer_id FROM timers WHERE timer_id = ANY ($1::bigint[]) ORDER BY timer_id FOR UPDATE)
