"""Credentials at rest: AES-256-GCM, bound to their org and connection.

A row that is copied to another org or name does not open. The port is small, so that a key service
can take the place of keys from the environment.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from perdure_runtime.errors import FailedPrecondition, Internal, Reason
from perdure_store.connections import Sealed

NONCE_BYTES = 12
KEY_BYTES = 32

SETTING = "PERDURE_COORDINATOR_CREDENTIAL_KEYS"


class Keys(Protocol):
    """What seals and opens; a key service is one, keys from the environment are another."""

    async def seal(self, plain: bytes, bound_to: bytes) -> Sealed:
        """Encrypt. Raises FailedPrecondition where there is no key to seal with."""

    async def open(self, sealed: Sealed, bound_to: bytes) -> bytes:
        """Decrypt. Raises Internal for what was sealed otherwise, or with a key that is gone."""


class EnvironmentKeys:
    """Keys by id; the first one seals, all of them open, so that a key can be replaced."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._first = next(iter(keys), None)

    async def seal(self, plain: bytes, bound_to: bytes) -> Sealed:
        """Encrypt under a fresh nonce. Raises FailedPrecondition without any key."""
        if self._first is None:
            raise FailedPrecondition(
                "what: credentials cannot be kept, because no key to seal them with is configured\n"
                "where: the coordinator\n"
                f"do this: set {SETTING} to an id and 32 random bytes in base64, such as "
                "`k1:$(openssl rand -base64 32)`, the same for all replicas",
                reason=Reason.CONFIG_INVALID,
            )
        nonce = os.urandom(NONCE_BYTES)
        text = self._ciphers[self._first].encrypt(nonce, plain, bound_to)
        return Sealed(self._first, nonce + text)

    async def open(self, sealed: Sealed, bound_to: bytes) -> bytes:
        """Decrypt. Raises Internal."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise _unreadable(f"the key {sealed.key_id} is not configured")
        nonce, text = sealed.text[:NONCE_BYTES], sealed.text[NONCE_BYTES:]
        try:
            return cipher.decrypt(nonce, text, bound_to)
        except InvalidTag:
            raise _unreadable(f"the key {sealed.key_id} does not open them") from None


def parse_keys(text: str) -> EnvironmentKeys:
    """Read `id:base64` keys, separated by commas. Raises FailedPrecondition, CONFIG_INVALID."""
    keys: dict[str, bytes] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key_id, _, encoded = part.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise _bad_key(key_id, "is not base64") from None
        if not key_id or key_id in keys:
            raise _bad_key(key_id, "needs an id that no other key has")
        if len(key) != KEY_BYTES:
            raise _bad_key(key_id, f"has {len(key)} bytes; it needs {KEY_BYTES}")
        keys[key_id] = key
    return EnvironmentKeys(keys)


async def seal_credentials(
    keys: Keys, org: str, name: str, credentials: Mapping[str, str]
) -> Sealed:
    """Seal credentials for one connection. Raises FailedPrecondition."""
    return await keys.seal(json.dumps(dict(credentials)).encode(), _bound_to(org, name))


async def open_credentials(keys: Keys, org: str, name: str, sealed: Sealed) -> dict[str, str]:
    """Open what was sealed for one connection. Raises Internal."""
    credentials: dict[str, str] = json.loads(await keys.open(sealed, _bound_to(org, name)))
    return credentials


def _bound_to(org: str, name: str) -> bytes:
    return json.dumps(["perdure.connection", org, name]).encode()


def _unreadable(why: str) -> Internal:
    return Internal(f"credentials cannot be opened: {why}", reason=Reason.INTERNAL)


def _bad_key(key_id: str, problem: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"what: a key for credentials cannot be used: {key_id or 'one without an id'} {problem}\n"
        f"where: {SETTING}\n"
        "do this: write each key as an id, a colon and 32 random bytes in base64",
        reason=Reason.CONFIG_INVALID,
    )
