-- Whose turn it is at the relay: orgs by their weights, within an org the priorities, within one the jobs in turn.

ALTER TABLE orgs
    ADD COLUMN weight smallint NOT NULL DEFAULT 1, -- rows that it may send in each of its turns
    ADD CONSTRAINT orgs_weight_range CHECK (weight BETWEEN 1 AND 100);

-- A hash of the workflow's name, so that one kind of job does not stand in front of an org's others.
ALTER TABLE outbox ADD COLUMN job integer NOT NULL DEFAULT 0;

CREATE INDEX outbox_in_turn ON outbox (lane, owner, org, priority DESC, job, outbox_id) WHERE state = 'ready';
DROP INDEX outbox_ready;
