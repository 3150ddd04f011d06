"""Puts the gate together from the settings of its process."""

from __future__ import annotations

import asyncpg
from perdure_runtime.config_groups import OFF
from perdure_runtime.gate.gate import Gate, everybody_is
from perdure_runtime.gate.key_use import KeyUse
from perdure_runtime.gate.rates import UNLIMITED, Rate, Rates
from perdure_runtime.lifecycle import Group

from perdure_ingest.config_auth import AuthConfig
from perdure_ingest.gate.authentication import Authentication
from perdure_ingest.gate.key_ring import KeyRing
from perdure_ingest.gate.table import RULES
from perdure_ingest.gate.tokens import Tokens
from perdure_ingest.key_calls import KeyCalls


class GateParts(Group):
    """What runs for a gate: what is known of keys, and the telling of their use."""

    def __init__(self, config: AuthConfig, pool: asyncpg.Pool, calls: KeyCalls) -> None:
        ring = KeyRing(pool, config.key_cache_seconds)
        self.use = KeyUse("ingest.key_use", calls.note_use)
        tokens = Tokens(config, pool) if config.jwt_issuer else None
        authentication = Authentication(ring, self.use, tokens, config.installation_org)
        self.gate = _gate(config, authentication)
        super().__init__((ring, self.use))


def _gate(config: AuthConfig, authentication: Authentication) -> Gate:
    if config.auth == OFF:
        return Gate(everybody_is(config.org), Rates(UNLIMITED, UNLIMITED.burst), RULES)
    rates = Rates(Rate(config.key_rate, config.key_burst), config.key_calls)
    return Gate(authentication.authenticate, rates, RULES)
