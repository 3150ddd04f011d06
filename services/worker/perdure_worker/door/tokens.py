"""Task tokens: what any worker process needs to act for a task's holder, signed and opaque.

A token is bound to an org, and grants nothing beyond its one acquisition, which the database knows
to be the newest or not. What is refused is told without a word about why: a token that was forged,
is another org's or is past its time is one thing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken

SIGNATURE_BYTES = 32
KEY_BYTES = 32
PURPOSE = b"perdure task token 1\0"
"""Signed with each token, so that nothing else under the same key passes for one."""

LONGEST_SECONDS = 30 * 86400.0
"""How long the token of a try lasts that has no timeout."""

SPARE_SECONDS = 3600.0
"""How long that of another lasts beyond its timeout, by clocks that may differ."""


class TaskTokens:
    """Makes tokens with the first of its keys, and reads those of each.

    Without a key it makes one that no other process has. `now` gives seconds since 1970.
    """

    def __init__(self, keys: Sequence[str] = (), now: Callable[[], float] = time.time) -> None:
        self._keys = [key.encode() for key in keys] or [secrets.token_bytes(KEY_BYTES)]
        self._now = now

    def make(self, token: TaskToken, timeout: float | None) -> str:
        """Return the text of a token, to be good for a try of `timeout` seconds."""
        lasts = LONGEST_SECONDS if timeout is None else timeout + SPARE_SECONDS
        token.expires_at = round(self._now() + lasts)
        told = token.SerializeToString(deterministic=True)
        return base64.urlsafe_b64encode(_signature(self._keys[0], told) + told).decode().rstrip("=")

    def read(self, text: str, org: str) -> TaskToken | None:
        """Return what a token of this org says, None for any that is not good."""
        try:
            padded = text.encode() + b"=" * (-len(text) % 4)
            signed = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeError):
            return None
        signature, told = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
        if not any(hmac.compare_digest(signature, _signature(key, told)) for key in self._keys):
            return None
        try:
            token = TaskToken.FromString(told)
        except DecodeError:
            return None
        is_good = token.lease.org == org and token.expires_at > self._now()
        return token if is_good else None


def _signature(key: bytes, told: bytes) -> bytes:
    return hmac.digest(key, PURPOSE + told, hashlib.sha256)
