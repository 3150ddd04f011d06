-- Who may knock: members of orgs, and the API keys that they and their programs present.

-- A person, as the identity provider or the org calls them.
CREATE TABLE members (
    org        text        NOT NULL,
    member     text        NOT NULL,
    roles      text[]      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT members_pkey PRIMARY KEY (org, member),
    CONSTRAINT members_org_known FOREIGN KEY (org) REFERENCES orgs (org),
    CONSTRAINT members_member_length CHECK (char_length(member) BETWEEN 1 AND 200),
    CONSTRAINT members_roles_known CHECK (
        cardinality(roles) > 0 AND roles <@ ARRAY['viewer', 'operator', 'approver', 'admin', 'worker']
    )
);

CREATE TABLE api_keys (
    key_id     text        NOT NULL,
    org        text        NOT NULL,
    name       text        NOT NULL, -- for people; of the keys of an org that are not revoked only one has it
    member     text, -- whose key it is: it may do nothing that the member may not; null: a program's
    roles      text[]      NOT NULL,
    scopes     text[]      NOT NULL, -- permissions that narrow what the roles allow; empty: they do not
    rate       double precision, -- calls a second; null: what the door is set to
    burst      integer, -- calls at once beyond the rate; null as above
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text        NOT NULL,
    expires_at timestamptz, -- null: it does not
    revoked_at timestamptz,
    revoked_by text,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_org_known FOREIGN KEY (org) REFERENCES orgs (org),
    CONSTRAINT api_keys_name_plain CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}$'),
    CONSTRAINT api_keys_roles_known CHECK (
        cardinality(roles) > 0 AND roles <@ ARRAY['viewer', 'operator', 'approver', 'admin', 'worker']
    ),
    CONSTRAINT api_keys_rate_whole CHECK ((rate IS NULL) = (burst IS NULL) AND rate > 0 AND burst > 0),
    CONSTRAINT api_keys_revoked_whole CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE UNIQUE INDEX api_keys_one_name ON api_keys (org, name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_by_org ON api_keys (org, key_id);
CREATE INDEX api_keys_by_member ON api_keys (org, member) WHERE member IS NOT NULL;

-- What a key is presented with. A key that is rotated has two for a time.
CREATE TABLE api_key_secrets (
    prefix       text        NOT NULL, -- finds the row, and is no secret
    key_id       text        NOT NULL,
    digest       bytea       NOT NULL, -- SHA-256 of 256 random bits
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz, -- null: with its key
    last_used_at timestamptz, -- to the minute or so; null: never
    CONSTRAINT api_key_secrets_pkey PRIMARY KEY (prefix),
    CONSTRAINT api_key_secrets_of FOREIGN KEY (key_id) REFERENCES api_keys (key_id),
    CONSTRAINT api_key_secrets_digest_length CHECK (octet_length(digest) = 32)
);
CREATE INDEX api_key_secrets_by_key ON api_key_secrets (key_id);

GRANT SELECT ON members, api_keys, api_key_secrets TO perdure_coordinator, perdure_ingest;
GRANT INSERT ON orgs, members, api_keys, api_key_secrets TO perdure_coordinator;
GRANT UPDATE (roles) ON members TO perdure_coordinator;
GRANT UPDATE (revoked_at, revoked_by) ON api_keys TO perdure_coordinator;
GRANT UPDATE (expires_at, last_used_at) ON api_key_secrets TO perdure_coordinator;
GRANT DELETE ON members TO perdure_coordinator;

SELECT isolate_orgs('members'), isolate_orgs('api_keys'),
       isolate_orgs('api_key_secrets', 'EXISTS (SELECT FROM api_keys AS owner WHERE owner.key_id = api_key_secrets.key_id)');

-- What is known of secrets that calls present. It is asked before an org is known, so it looks past the isolation, for
-- these prefixes and nothing else.
CREATE FUNCTION known_secrets(prefixes text[])
RETURNS TABLE (
    prefix text, digest bytea, key_id text, org text, name text, member text, roles text[], scopes text[],
    rate double precision, burst integer, is_revoked boolean, member_roles text[], seconds_left double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.prefix, s.digest, k.key_id, k.org, k.name, k.member, k.roles, k.scopes, k.rate, k.burst,
           k.revoked_at IS NOT NULL, m.roles,
           extract(epoch FROM least(k.expires_at, s.expires_at) - clock_timestamp())::double precision
      FROM api_key_secrets AS s
      JOIN api_keys AS k ON k.key_id = s.key_id
      LEFT JOIN members AS m ON m.org = k.org AND m.member = k.member
     WHERE s.prefix = ANY (prefixes)
$$;
REVOKE EXECUTE ON FUNCTION known_secrets(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION known_secrets(text[]) TO perdure_coordinator, perdure_ingest;

-- As before, and of one action or target where these are not empty.
DROP FUNCTION installation_audit(bigint, integer);
CREATE FUNCTION installation_audit(below bigint, most integer, only_action text, only_target text)
RETURNS TABLE (audit_id bigint, org text, at timestamptz, actor text, action text, target text, details bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.audit_id, a.org, a.at, a.actor, a.action, a.target, a.details
      FROM audit_log AS a
     WHERE a.org IS NULL AND a.audit_id < below
       AND (only_action = '' OR a.action = only_action) AND (only_target = '' OR a.target = only_target)
     ORDER BY a.audit_id DESC LIMIT most
$$;
REVOKE EXECUTE ON FUNCTION installation_audit(bigint, integer, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION installation_audit(bigint, integer, text, text) TO perdure_coordinator, perdure_ingest;
