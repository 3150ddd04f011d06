-- Who did what as an operator or for an org, beside what a run's own history tells.

CREATE TABLE audit_log (
    audit_id bigint      GENERATED ALWAYS AS IDENTITY,
    org      text, -- null: what concerns all orgs
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor    text        NOT NULL, -- as the door tells it; empty where nobody is named
    action   text        NOT NULL, -- such as `lane.put`
    target   text        NOT NULL, -- what it was done to
    details  bytea       NOT NULL, -- JSON
    CONSTRAINT audit_log_pkey PRIMARY KEY (audit_id)
);
CREATE INDEX audit_log_by_org ON audit_log (org, audit_id);
CREATE INDEX audit_log_by_target ON audit_log (action, target, audit_id);

GRANT SELECT ON audit_log TO perdure_coordinator, perdure_ingest;
GRANT INSERT ON audit_log TO perdure_coordinator; -- no role may change or remove what it says
