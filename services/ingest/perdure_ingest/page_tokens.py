"""Page tokens: where a list goes on, signed, and good only for the query that they were made for.

A token holds a place and the query's digest under an HMAC. It grants nothing: the org is the
caller's at each call, and is part of the query.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

SIGNATURE_BYTES = 16
KEY_BYTES = 32

Query = Sequence[object]
"""What a list was asked for, org and method first, without page size and token."""


class PageTokens:
    """Makes and reads page tokens under one key; an empty key is replaced by a random one."""

    def __init__(self, key: str = "") -> None:
        self._key = key.encode() or secrets.token_bytes(KEY_BYTES)

    def make(self, query: Query, place: str) -> str:
        """Return the token that goes on after `place`."""
        signed = self._signature(query, place) + place.encode()
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def read(self, query: Query, token: str) -> str | None:
        """Return the place of a token, None of an empty one.

        Raises InvalidArgument, PAGE_TOKEN_INVALID, for a token not made here for this query.
        """
        if not token:
            return None
        try:
            padded = token.encode() + b"=" * (-len(token) % 4)
            signed = base64.b64decode(padded, altchars=b"-_", validate=True)
            place = signed[SIGNATURE_BYTES:].decode()
        except (binascii.Error, UnicodeError):
            raise _refusal() from None
        if not hmac.compare_digest(signed[:SIGNATURE_BYTES], self._signature(query, place)):
            raise _refusal()
        return place

    def _signature(self, query: Query, place: str) -> bytes:
        text = json.dumps([*map(_plain, query), place], sort_keys=True)
        return hmac.digest(self._key, text.encode(), hashlib.sha256)[:SIGNATURE_BYTES]


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | dict | None) else str(value)


def _refusal() -> InvalidArgument:
    problem = "was not made by this list with these filters; begin again without it"
    return InvalidArgument(
        f"page_token {problem}",
        reason=Reason.PAGE_TOKEN_INVALID,
        violations=[FieldViolation("page_token", problem)],
    )
