-- Lanes are made, changed and removed by operators; one that a published version uses stays.

ALTER TABLE lanes ALTER COLUMN retry_factor TYPE double precision; -- so that 1.1 stays 1.1

CREATE TABLE workflow_lanes (
    workflow_id bigint NOT NULL,
    lane        text   NOT NULL,
    CONSTRAINT workflow_lanes_pkey PRIMARY KEY (workflow_id, lane),
    CONSTRAINT workflow_lanes_workflow_known FOREIGN KEY (workflow_id) REFERENCES workflows (workflow_id),
    CONSTRAINT workflow_lanes_lane_known FOREIGN KEY (lane) REFERENCES lanes (lane)
);
CREATE INDEX workflow_lanes_by_lane ON workflow_lanes (lane);
CREATE TRIGGER workflow_lanes_immutable BEFORE UPDATE OR DELETE ON workflow_lanes
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- What was published before: every lane whose name stands in the document may be one of it.
INSERT INTO workflow_lanes (workflow_id, lane)
SELECT w.workflow_id, l.lane
  FROM workflows AS w JOIN lanes AS l ON position(convert_to(l.lane, 'UTF8') IN w.document) > 0;

GRANT SELECT ON workflow_lanes TO perdure_coordinator, perdure_ingest;
GRANT INSERT ON workflow_lanes TO perdure_coordinator;
GRANT INSERT, UPDATE, DELETE ON lanes TO perdure_coordinator;
GRANT UPDATE (weight) ON orgs TO perdure_coordinator;
