"""Whom the header `authorization` of a call stands for."""

from __future__ import annotations

from perdure_runtime.api_keys import MARK
from perdure_runtime.gate.authorise import Principal
from perdure_runtime.gate.credentials import presented_credential, presented_key
from perdure_runtime.gate.key_use import KeyUse
from perdure_runtime.gate.rates import Rate
from perdure_store.key_holders import KeyHolder

from perdure_ingest.gate.key_ring import KeyRing
from perdure_ingest.gate.tokens import Tokens


class Authentication:
    """Knows API keys, and tokens where there are any.

    `installation` is the org that may act on what all orgs share.
    """

    def __init__(
        self, ring: KeyRing, use: KeyUse, tokens: Tokens | None, installation: str
    ) -> None:
        self._ring = ring
        self._use = use
        self._tokens = tokens
        self._installation = installation

    async def authenticate(self, authorization: str | None) -> Principal:
        """Return who calls.

        Raises Unauthenticated: KEY_MISSING without a credential, KEY_INVALID for one that has not
        the form of a key, else as `KeyRing.holder` and `Tokens.principal` do.
        """
        credential = presented_credential(authorization)
        if self._tokens is not None and not credential.startswith(MARK):
            return await self._tokens.principal(credential)
        presented = presented_key(credential)
        holder = await self._ring.holder(presented)
        self._use.note(presented.prefix)
        return self._principal(holder)

    def _principal(self, holder: KeyHolder) -> Principal:
        own_rate = holder.rate is not None and holder.burst is not None
        return Principal(
            org=holder.org,
            actor=holder.actor,
            permissions=holder.permissions,
            runs_installation=holder.org == self._installation,
            key=holder.key_id,
            rate=Rate(holder.rate or 0.0, holder.burst or 0) if own_rate else None,
        )
