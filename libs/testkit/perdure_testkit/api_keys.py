"""API keys for tests, made straight in the database as `perdure keys bootstrap` does."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from perdure_runtime.api_keys import NewKey, make_key, random_word
from perdure_store.keys import KeyAsked, Secret, bootstrap_key

MAKER = "tests"
RATE = 100_000.0
"""Calls a second: so many that no test runs into it unless it wants to."""


async def give_key(
    connection: asyncpg.Connection,
    made: NewKey | None = None,
    *,
    org: str = "default",
    name: str | None = None,
    roles: Sequence[str] = ("admin",),
    scopes: Sequence[str] = (),
    member: str | None = None,
    lasts: float | None = None,
    rate: float | None = RATE,
    burst: int | None = int(RATE),
) -> str:
    """Make a key of an org, and the org if need be; return what is presented.

    `made` is a key whose text is known already. `rate` and `burst` None leave the door its own.
    """
    made = made or make_key()
    key_id = random_word(12)
    asked = KeyAsked(
        key_id=key_id,
        org=org,
        name=name or f"k-{key_id}",
        roles=roles,
        member=member,
        scopes=scopes,
        lasts=lasts,
        rate=rate,
        burst=burst,
    )
    secret = Secret(made.prefix, made.digest)
    await bootstrap_key(connection, asked, secret, by=MAKER, another=True)
    return made.text
