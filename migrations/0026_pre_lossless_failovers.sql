-- Whether the operator has said that failovers lose nothing, because the standby has what was committed (protocol p4).

ALTER TABLE epochs
    ADD COLUMN lossless boolean NOT NULL DEFAULT false; -- a later timeline of the same system is the same database
