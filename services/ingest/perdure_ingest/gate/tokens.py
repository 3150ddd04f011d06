"""Tokens of an identity provider (JWT): whom one stands for, if it is good here."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg
import jwt
from perdure_runtime.access import Role, permissions
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, Unauthenticated, clean_text
from perdure_runtime.gate.authorise import Principal
from perdure_store.members import list_members
from perdure_store.org_reads import reading

from perdure_ingest.config_auth import AuthConfig
from perdure_ingest.gate.jwks import Jwks

LEEWAY = 10
"""Seconds that the issuer's clock and this one may differ."""

REQUIRED = ("exp", "iss", "aud", "sub")
MAX_KNOWN = 10_000
MAX_SUBJECT = 200


class Tokens:
    """Checks tokens; what it found it keeps as long as a key that was looked up."""

    def __init__(self, config: AuthConfig, pool: asyncpg.Pool, clock: Clock | None = None) -> None:
        self._config = config
        self._pool = pool
        self._clock = clock or SystemClock()
        self._jwks = Jwks(config.jwt_jwks, self._clock)
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def principal(self, token: str) -> Principal:
        """Return whom a token stands for.

        Raises Unauthenticated, CREDENTIAL_INVALID, saying what is wrong with it.
        """
        if not token.isascii():
            raise _refusal("the token holds characters that none has")
        digest = hashlib.sha256(token.encode()).digest()
        until, principal = self._known.get(digest, (0.0, None))
        if principal is not None and until > self._clock.monotonic():
            return principal
        claims = await self._claims(token)
        principal = await self._principal(claims)
        lasts = min(self._config.key_cache_seconds, _seconds_left(claims))
        self._known[digest] = (self._clock.monotonic() + lasts, principal)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return principal

    async def _claims(self, token: str) -> Mapping[str, Any]:
        try:
            key = await self._jwks.key(jwt.get_unverified_header(token).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(self._config.jwt_algorithms),
                audience=self._config.jwt_audience,
                issuer=self._config.jwt_issuer,
                leeway=LEEWAY,
                options={"require": list(REQUIRED)},
            )
        except jwt.PyJWTError as error:
            raise _refusal(f"the token is not good here: {error}") from error
        return claims

    async def _principal(self, claims: Mapping[str, Any]) -> Principal:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            raise _refusal(f"the token's subject has not 1 to {MAX_SUBJECT} characters")
        org = self._org(claims)
        roles = _roles(claims.get(self._config.jwt_role_claim), self._config.role_map)
        roles = roles or await self._roles_of_member(org, subject)
        if not roles:
            raise _refusal("the token gives no role here, and its subject is no member")
        return Principal(
            org=org,
            actor=f"{clean_text(subject)} (token)",
            permissions=permissions(roles),
            runs_installation=org == self._config.installation_org,
            key=f"token:{org}:{subject}",
        )

    def _org(self, claims: Mapping[str, Any]) -> str:
        claim = self._config.jwt_org_claim
        org = claims.get(claim) if claim else self._config.org
        if not isinstance(org, str) or not org:
            raise _refusal(f"the token names no org in its claim {claim}")
        return org

    async def _roles_of_member(self, org: str, subject: str) -> set[Role]:
        if "\0" in subject or "\0" in org:
            return set()
        async with reading(self._pool, org) as connection:
            found = await list_members(connection, org, only=subject, limit=1)
        return {Role(role) for member in found for role in member.roles}


def _seconds_left(claims: Mapping[str, Any]) -> float:
    return int(claims["exp"]) + LEEWAY - time.time()


def _roles(given: object, known: Mapping[str, Role]) -> set[Role]:
    values: Iterable[object] = given if isinstance(given, list) else [given]
    return {known[value] for value in values if isinstance(value, str) and value in known}


def _refusal(message: str) -> Unauthenticated:
    return Unauthenticated(message, reason=Reason.CREDENTIAL_INVALID)
