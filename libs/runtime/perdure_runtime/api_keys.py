"""The form of an API key: `pdr_`, the prefix that finds it, `_`, and 256 random bits.

Of the secret only its SHA-256 is kept: it is random, so there is nothing that a slow hash would
protect, and every call has to check it. The alphabet is that of base32 in lower case, so that a
double click marks a whole key.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field

MARK = "pdr_"
"""What every key begins with, for people and for scanners of leaked secrets."""

PREFIX_CHARACTERS = 12
SECRET_BYTES = 32
DIGEST_BYTES = 32

_BEARER = "bearer "
_KEY = re.compile(rf"{MARK}(?P<prefix>[a-z2-7]{{{PREFIX_CHARACTERS}}})_(?P<secret>[a-z2-7]{{52}})")


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key as a caller presents it: what finds it, and the SHA-256 of its secret."""

    prefix: str
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made: `text` is told once, the rest is kept."""

    text: str = field(repr=False)
    prefix: str
    digest: bytes = field(repr=False)


def make_key() -> NewKey:
    """Make a key that nobody else has or guesses."""
    prefix = random_word(PREFIX_CHARACTERS)
    secret = _word(secrets.token_bytes(SECRET_BYTES))
    return NewKey(f"{MARK}{prefix}_{secret}", prefix, _digest(secret))


def random_word(characters: int) -> str:
    """Return so many random characters of the alphabet of keys."""
    return _word(secrets.token_bytes(characters))[:characters]


def read_key(text: str) -> PresentedKey | None:
    """Return what a key says, None for a text that has not the form of one."""
    found = _KEY.fullmatch(text)
    return PresentedKey(found["prefix"], _digest(found["secret"])) if found else None


def bearer(header: str | None) -> str | None:
    """Return the credential of a header `authorization`, None if there is no `Bearer`."""
    if header is None or header[: len(_BEARER)].lower() != _BEARER:
        return None
    return header[len(_BEARER) :].strip() or None


def _word(random: bytes) -> str:
    return base64.b32encode(random).decode().rstrip("=").lower()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
