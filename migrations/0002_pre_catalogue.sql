-- What changes seldom: orgs, lanes, published workflows, elected leaders.

CREATE TABLE orgs (
    org        text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT orgs_pkey PRIMARY KEY (org),
    CONSTRAINT orgs_org_not_empty CHECK (org <> '')
);
INSERT INTO orgs (org) VALUES ('default');

-- A kind of work. Durations in milliseconds.
CREATE TABLE lanes (
    lane           text     NOT NULL,
    shards         smallint NOT NULL DEFAULT 1,
    stream_ceiling integer  NOT NULL DEFAULT 1000, -- entries one stream may hold at most
    hand_out_ms    integer  NOT NULL DEFAULT 10000, -- lease of a hand-out until the first renewal
    lease_ms       integer  NOT NULL DEFAULT 30000, -- lease after a renewal
    poison_limit   smallint NOT NULL DEFAULT 3, -- losses after which a step fails as poison
    retry_max      smallint NOT NULL, -- retries where the definition says nothing
    retry_base_ms  integer  NOT NULL DEFAULT 1000,
    retry_factor   real     NOT NULL DEFAULT 2,
    retry_cap_ms   integer  NOT NULL DEFAULT 300000,
    CONSTRAINT lanes_pkey PRIMARY KEY (lane),
    CONSTRAINT lanes_lane_plain CHECK (lane ~ '^[a-z][a-z0-9_-]{0,39}$'),
    CONSTRAINT lanes_shards_range CHECK (shards BETWEEN 1 AND 256),
    CONSTRAINT lanes_positive CHECK (
        stream_ceiling > 0 AND hand_out_ms > 0 AND lease_ms > 0 AND poison_limit > 0
        AND retry_max >= 0 AND retry_base_ms > 0 AND retry_factor >= 1 AND retry_cap_ms > 0
    )
);
INSERT INTO lanes (lane, retry_max, retry_base_ms, retry_cap_ms)
VALUES ('io', 5, 1000, 300000), ('slow', 2, 30000, 600000);

CREATE TABLE workflows (
    workflow_id  bigint      GENERATED ALWAYS AS IDENTITY,
    org          text        NOT NULL,
    name         text        NOT NULL,
    version      integer     NOT NULL,
    digest       bytea       NOT NULL, -- SHA-256 of the canonical document
    document     bytea       NOT NULL, -- as it was published
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT workflows_pkey PRIMARY KEY (workflow_id),
    CONSTRAINT workflows_version_unique UNIQUE (org, name, version),
    CONSTRAINT workflows_org_known FOREIGN KEY (org) REFERENCES orgs (org),
    CONSTRAINT workflows_version_positive CHECK (version > 0),
    CONSTRAINT workflows_digest_length CHECK (octet_length(digest) = 32)
);

-- What a decision may read when a node of a version ended: loaded in one go (node '' = the run's start).
CREATE TABLE workflow_nodes (
    workflow_id bigint  NOT NULL,
    node        text    NOT NULL,
    steps       text[]  NOT NULL, -- nodes whose state may be read
    outputs     text[]  NOT NULL, -- nodes whose output may be read
    input       boolean NOT NULL, -- whether the run's input may be read
    CONSTRAINT workflow_nodes_pkey PRIMARY KEY (workflow_id, node),
    CONSTRAINT workflow_nodes_workflow_known FOREIGN KEY (workflow_id) REFERENCES workflows (workflow_id)
);

-- Rule R11: a published version never changes.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a published workflow never changes' USING ERRCODE = 'integrity_constraint_violation',
        CONSTRAINT = 'workflows_immutable';
END
$$;
CREATE TRIGGER workflows_immutable BEFORE UPDATE OR DELETE ON workflows
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workflow_nodes_immutable BEFORE UPDATE OR DELETE ON workflow_nodes
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Elected holders of a duty (a relay shard, the timer, the sweeper).
CREATE TABLE leaders (
    duty       text        NOT NULL,
    holder     text        NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT leaders_pkey PRIMARY KEY (duty)
);
