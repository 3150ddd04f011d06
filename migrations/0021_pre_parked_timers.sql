-- Steps that are parked because their timers cannot be delivered (protocol p5).

ALTER TABLE timers
    ADD COLUMN failure text; -- what the latest delivery failed with; null: none has

-- What a step is parked on that still stands. One row for each.
CREATE OR REPLACE VIEW standing_causes AS
SELECT s.run_id, s.step
  FROM steps AS s JOIN runs AS r USING (run_id)
 WHERE s.parked_on = 'pause'
   AND (r.paused OR EXISTS (SELECT FROM timers AS t WHERE t.run_id = s.run_id AND t.kind = 'unpark'))
UNION ALL
SELECT s.run_id, s.step
  FROM steps AS s
 WHERE s.parked_on = 'timer'
   AND EXISTS (
       SELECT FROM timers AS t
        WHERE t.run_id = s.run_id AND t.step = s.step AND t.kind IN ('retry', 'wait') AND t.next_try = 'infinity'
   );
