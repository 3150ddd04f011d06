"""KeyService: the API keys of the caller's org. Secrets are made here and go no further."""

from __future__ import annotations

import re
from difflib import get_close_matches

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.internal.v1 import key_service_pb2 as internal
from perdure_contracts.v1 import key_service_pb2 as public
from perdure_runtime.access import Permission, Role, permissions
from perdure_runtime.api_keys import NewKey, make_key, random_word
from perdure_runtime.gate.identity import Caller
from perdure_store.keys import ApiKey, key_named
from perdure_store.keys import list_keys as read_keys
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.rights import read_roles, refuse_more_than_own
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.keys import key_message

KEY_ID_CHARACTERS = 12
MAX_OVERLAP = 90 * 86_400.0
DEFAULT_OVERLAP = 86_400.0
FIRST = ""
"""Stands before every id."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}")

_LONGEST_SCOPE = 32
"""Characters of an unknown scope that are shown and compared with the known ones."""


async def create_key(
    doors: Doors, caller: Caller, request: public.CreateKeyRequest
) -> public.CreateKeyResponse:
    """Make a key that may do nothing that the caller may not."""
    fields = Check()
    roles, scopes = read_roles(fields, request.roles), _scopes(fields, list(request.scopes))
    rate, burst = _rate(fields, request.rate, request.burst)
    made = make_key()
    asked = internal.CreateKeyRequest(
        key_id=random_word(KEY_ID_CHARACTERS),
        org=caller.org,
        name=_name(fields, request.name),
        member=fields.text("member", request.member, longest=limits.MAX_NAME),
        roles=roles,
        scopes=scopes,
        lasts=_lasts(fields, request),
        rate=rate,
        burst=burst,
        secret=_secret(made),
        asked_by=caller.actor,
    )
    fields.refuse()
    refuse_more_than_own(caller, permissions(roles, scopes))
    await doors.coordinator.keys.create(asked)
    key = await _named(doors, caller, asked.name)
    return public.CreateKeyResponse(key=key_message(key), secret=made.text)


async def list_keys(
    doors: Doors, caller: Caller, request: public.ListKeysRequest
) -> public.ListKeysResponse:
    """List keys by id; a page goes on after the last of the page before."""
    fields = Check()
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListKeys", caller.org, str(request.with_revoked))
    after = doors.tokens.read(query, request.page_token) or FIRST
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_keys(
            connection, caller.org, after=after, limit=size + 1, with_revoked=request.with_revoked
        )
    page = fill_page(rows, size, key_message)
    token = doors.tokens.make(query, page.last.key_id) if page.last else ""
    return public.ListKeysResponse(keys=page.messages, next_page_token=token)


async def rotate_key(
    doors: Doors, caller: Caller, request: public.RotateKeyRequest
) -> public.RotateKeyResponse:
    """Give a key another secret; the caller learns it, so must be allowed all that the key is."""
    fields = Check()
    name = _name(fields, request.name)
    given = fields.duration("overlap", request.overlap) if request.HasField("overlap") else None
    overlap = DEFAULT_OVERLAP if given is None else given
    if overlap > MAX_OVERLAP:
        fields.add("overlap", "must be at most 90 days")
    fields.refuse()
    key = await _named(doors, caller, name)
    allowed = permissions(map(Role, key.roles), map(Permission, key.scopes))
    refuse_more_than_own(caller, allowed)
    made = make_key()
    await doors.coordinator.keys.rotate(
        internal.RotateKeyRequest(
            org=caller.org,
            key_id=key.key_id,
            secret=_secret(made),
            overlap=overlap,
            asked_by=caller.actor,
        )
    )
    key = await _named(doors, caller, name)
    return public.RotateKeyResponse(key=key_message(key), secret=made.text)


async def revoke_key(
    doors: Doors, caller: Caller, request: public.RevokeKeyRequest
) -> public.RevokeKeyResponse:
    """End a key."""
    fields = Check()
    name = _name(fields, request.name)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    key = await _named(doors, caller, name)
    await doors.coordinator.keys.revoke(
        internal.RevokeKeyRequest(
            org=caller.org, key_id=key.key_id, reason=reason, asked_by=caller.actor
        )
    )
    return public.RevokeKeyResponse()


async def _named(doors: Doors, caller: Caller, name: str) -> ApiKey:
    async with reading(doors.pool, caller.org) as connection:
        return await key_named(connection, caller.org, name)


def _name(fields: Check, given: str) -> str:
    if not _NAME.fullmatch(given):
        fields.add("name", "must be a letter or digit, then letters, digits, _ . @ or -; up to 63")
    return given


def _scopes(fields: Check, given: list[str]) -> list[Permission]:
    known = {scope for scope in given if scope in set(Permission)}
    unknown = next((scope[:_LONGEST_SCOPE] for scope in given if scope not in known), None)
    if unknown is not None:
        near = get_close_matches(unknown, list(Permission), n=3, cutoff=0)
        fields.add("scopes", f"{unknown!r} is no permission; near it are {', '.join(near)}")
    return sorted(Permission(scope) for scope in known)


def _lasts(fields: Check, request: public.CreateKeyRequest) -> float:
    if not request.HasField("lasts"):
        return 0.0
    seconds = fields.duration("lasts", request.lasts)
    if request.lasts == Duration():
        fields.add("lasts", "must be more than nothing")
    return seconds or 0.0


def _rate(fields: Check, rate: float, burst: int) -> tuple[float, int]:
    if not 0 <= rate <= limits.MAX_RATE:
        fields.add("rate", f"must lie between 0 and {limits.MAX_RATE:g}")
        return 0.0, 0
    if not 0 <= burst <= limits.MAX_BURST:
        fields.add("burst", f"must lie between 0 and {limits.MAX_BURST}")
    if burst and not rate:
        fields.add("burst", "is of no use without a rate")
    return rate, burst or (max(round(2 * rate), 1) if rate else 0)


def _secret(made: NewKey) -> internal.KeySecret:
    return internal.KeySecret(prefix=made.prefix, digest=made.digest)
