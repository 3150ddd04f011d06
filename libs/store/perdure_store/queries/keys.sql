-- API keys and members: who may knock.

-- name: find_secrets
-- Finds what calls present, with what their keys may do; seconds_left is null for one without an end.
SELECT prefix, digest, key_id, org, name, member, roles, scopes, rate, burst, is_revoked, member_roles, seconds_left
  FROM known_secrets($1::text[])

-- name: mark_used
-- Notes that secrets were used just now, those of which that was not noted within the last minute.
UPDATE api_key_secrets SET last_used_at = clock_timestamp()
 WHERE prefix IN (SELECT prefix FROM api_key_secrets
                   WHERE prefix = ANY ($1::text[])
                     AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '50 seconds')
                   ORDER BY prefix FOR UPDATE SKIP LOCKED)

-- name: make_org
-- Makes an org where there is none of the name.
INSERT INTO orgs (org) VALUES ($1) ON CONFLICT ON CONSTRAINT orgs_pkey DO NOTHING

-- name: lock_org
-- Locks an org, so that only one at a time makes its first key.
SELECT org FROM orgs WHERE org = $1 FOR NO KEY UPDATE

-- name: count_admins
-- Counts the keys of an org that could still make others.
SELECT count(*) FROM api_keys AS k
 WHERE k.org = $1 AND 'admin' = ANY (k.roles) AND k.scopes = '{}' AND k.revoked_at IS NULL
   AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
   AND (k.member IS NULL OR EXISTS (
           SELECT FROM members AS m WHERE m.org = k.org AND m.member = k.member AND 'admin' = ANY (m.roles)
       ))

-- name: create
-- Makes a key; nothing if this very key is there.
INSERT INTO api_keys (key_id, org, name, member, roles, scopes, rate, burst, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp() + make_interval(secs => $10::double precision))
ON CONFLICT ON CONSTRAINT api_keys_pkey DO NOTHING
RETURNING key_id

-- name: add_secret
-- Gives a key one more secret; nothing if it has this very one.
INSERT INTO api_key_secrets (prefix, key_id, digest) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT api_key_secrets_pkey DO NOTHING
RETURNING prefix

-- name: lock
-- Locks a key that is not revoked.
SELECT name FROM api_keys WHERE key_id = $1 AND org = $2 AND revoked_at IS NULL FOR NO KEY UPDATE

-- name: end_other_secrets
-- Has a key's other secrets end in so many seconds, or earlier if they were to.
UPDATE api_key_secrets
   SET expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $3::double precision))
 WHERE key_id = $1 AND prefix <> $2

-- name: revoke
-- Revokes a key; nothing if it is.
UPDATE api_keys SET revoked_at = clock_timestamp(), revoked_by = $3
 WHERE key_id = $1 AND org = $2 AND revoked_at IS NULL
RETURNING name

-- name: revoke_of_member
-- Revokes all keys of a member.
UPDATE api_keys SET revoked_at = clock_timestamp(), revoked_by = $3
 WHERE org = $1 AND member = $2 AND revoked_at IS NULL
RETURNING key_id

-- name: list
-- Reads the keys of an org after an id; only those that are not revoked where $4 is false.
SELECT k.key_id, k.org, k.name, k.member, k.roles, k.scopes, k.rate, k.burst, k.created_at, k.created_by,
       k.expires_at, k.revoked_at, k.revoked_by,
       (SELECT max(s.last_used_at) FROM api_key_secrets AS s WHERE s.key_id = k.key_id) AS last_used_at,
       (SELECT count(*) FROM api_key_secrets AS s
         WHERE s.key_id = k.key_id AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())) AS secrets
  FROM api_keys AS k
 WHERE k.org = $1 AND k.key_id > $2 AND ($4 OR k.revoked_at IS NULL)
 ORDER BY k.key_id LIMIT $3

-- name: named
-- Reads the key of an org that has a name and is not revoked.
SELECT k.key_id, k.org, k.name, k.member, k.roles, k.scopes, k.rate, k.burst, k.created_at, k.created_by,
       k.expires_at, k.revoked_at, k.revoked_by,
       (SELECT max(s.last_used_at) FROM api_key_secrets AS s WHERE s.key_id = k.key_id) AS last_used_at,
       (SELECT count(*) FROM api_key_secrets AS s
         WHERE s.key_id = k.key_id AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())) AS secrets
  FROM api_keys AS k
 WHERE k.org = $1 AND k.name = $2 AND k.revoked_at IS NULL

-- name: share_member
-- Reads a member's roles and keeps them from being changed meanwhile.
SELECT roles FROM members WHERE org = $1 AND member = $2 FOR SHARE

-- name: lock_member
-- Locks a member.
SELECT roles FROM members WHERE org = $1 AND member = $2 FOR UPDATE

-- name: put_member
-- Makes a member or changes its roles.
INSERT INTO members (org, member, roles) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT members_pkey DO UPDATE SET roles = excluded.roles

-- name: drop_member
-- Removes a member.
DELETE FROM members WHERE org = $1 AND member = $2

-- name: members
-- Reads the members of an org after a name, or the one of a name where $3 is not empty.
SELECT member, roles, created_at FROM members
 WHERE org = $1 AND member > $2 AND ($3 = '' OR member = $3)
 ORDER BY member LIMIT $4
