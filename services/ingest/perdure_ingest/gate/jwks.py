"""The public keys of an identity provider: read at need, and again when a token names a new one."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path

import jwt
from perdure_runtime.clock import Clock, SystemClock
from perdure_runtime.errors import Reason, Unauthenticated, Unavailable

GOOD_FOR = 600.0
"""Seconds after which the keys are read again: one that was withdrawn is trusted no longer."""

AGAIN_AFTER = 10.0
"""Seconds between two readings at least, however many tokens name an unknown key."""

FETCH_TIMEOUT = 5.0
MAX_BYTES = 1024 * 1024


class Jwks:
    """The keys of one place: a file, or an https:// URL."""

    def __init__(self, place: str, clock: Clock | None = None) -> None:
        self._place = place
        self._clock = clock or SystemClock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._read_at = -GOOD_FOR
        self._turn = asyncio.Lock()

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """Return the key that a token names.

        Raises Unauthenticated, CREDENTIAL_INVALID, for an unknown one, and Unavailable where the
        place cannot be read and no key is known.
        """
        if self._age() >= GOOD_FOR or (key_id not in self._keys and self._age() >= AGAIN_AFTER):
            await self._refresh()
        try:
            return self._keys[key_id]
        except KeyError:
            raise Unauthenticated(
                "the token is signed with a key that the issuer does not publish",
                reason=Reason.CREDENTIAL_INVALID,
            ) from None

    def _age(self) -> float:
        return self._clock.monotonic() - self._read_at

    async def _refresh(self) -> None:
        async with self._turn:
            if self._age() < AGAIN_AFTER:
                return
            try:
                document = await asyncio.to_thread(_read, self._place)
                self._keys = _parse(document)
            except (OSError, ValueError, jwt.PyJWTError) as error:
                # While the place is away, what was read goes on: nobody is locked out by a blip.
                if not self._keys:
                    raise Unavailable(
                        f"the keys of the issuer cannot be read: {type(error).__name__}",
                        reason=Reason.PEER_UNAVAILABLE,
                    ) from error
            self._read_at = self._clock.monotonic()


def _read(place: str) -> bytes:
    if not place.startswith("https://"):
        return Path(place).read_bytes()
    with urllib.request.urlopen(place, timeout=FETCH_TIMEOUT) as response:
        if not response.url.startswith("https://"):
            raise OSError("the place of the keys leads away from https")
        document: bytes = response.read(MAX_BYTES)
    return document


def _parse(document: bytes) -> dict[str | None, jwt.PyJWK]:
    found = jwt.PyJWKSet.from_dict(json.loads(document))
    return {key.key_id: key for key in found.keys}
