"""Puts the gate together from the settings of its process."""

from __future__ import annotations

import asyncpg
from perdure_runtime.lifecycle import Group

from perdure_ingest.config_auth import OFF, AuthConfig
from perdure_ingest.gate.authentication import Authentication
from perdure_ingest.gate.gate import Gate, everybody_is
from perdure_ingest.gate.key_ring import KeyRing
from perdure_ingest.gate.key_use import KeyUse
from perdure_ingest.gate.rates import Rate, Rates
from perdure_ingest.gate.tokens import Tokens
from perdure_ingest.key_calls import KeyCalls

UNLIMITED = Rate(1e9, 10**9)


class GateParts(Group):
    """What runs for a gate: what is known of keys, and the telling of their use."""

    def __init__(self, config: AuthConfig, pool: asyncpg.Pool, calls: KeyCalls) -> None:
        ring, self.use = KeyRing(pool, config.key_cache_seconds), KeyUse(calls)
        tokens = Tokens(config, pool) if config.jwt_issuer else None
        authentication = Authentication(ring, self.use, tokens, config.installation_org)
        self.gate = _gate(config, authentication)
        super().__init__((ring, self.use))


def _gate(config: AuthConfig, authentication: Authentication) -> Gate:
    if config.auth == OFF:
        return Gate(everybody_is(config.org), Rates(UNLIMITED, UNLIMITED.burst))
    rates = Rates(Rate(config.key_rate, config.key_burst), config.key_calls)
    return Gate(authentication.authenticate, rates)
