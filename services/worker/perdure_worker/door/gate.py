"""The door's gate: whose key a call presents, how often it may call, and whether."""

from __future__ import annotations

from perdure_runtime.clock import Clock
from perdure_runtime.config_groups import OFF, GateConfig
from perdure_runtime.gate.authorise import Principal
from perdure_runtime.gate.credentials import presented_credential, presented_key
from perdure_runtime.gate.gate import Gate, everybody_is
from perdure_runtime.gate.key_use import KeyUse
from perdure_runtime.gate.rates import UNLIMITED, Rate, Rates
from perdure_runtime.lifecycle import Group

from perdure_worker.door.key_calls import KeyCalls
from perdure_worker.door.key_ring import KeyRing
from perdure_worker.door.table import RULES


class Authentication:
    """Knows the keys of handlers."""

    def __init__(self, ring: KeyRing, use: KeyUse) -> None:
        self._ring = ring
        self._use = use

    async def authenticate(self, authorization: str | None) -> Principal:
        """Return who calls. Raises as `presented_credential`, `presented_key`, `KeyRing` do."""
        presented = presented_key(presented_credential(authorization))
        principal = await self._ring.principal(presented)
        self._use.note(presented.prefix)
        return principal


class GateParts(Group):
    """What runs for the gate: what is known of keys, and the telling of their use."""

    def __init__(self, config: GateConfig, calls: KeyCalls, clock: Clock) -> None:
        ring = KeyRing(calls, config.key_cache_seconds, clock)
        self.use = KeyUse("worker.key_use", calls.note_use)
        self.gate = _gate(config, Authentication(ring, self.use), clock)
        super().__init__((ring, self.use))


def _gate(config: GateConfig, authentication: Authentication, clock: Clock) -> Gate:
    if config.auth == OFF:
        return Gate(everybody_is(config.org), Rates(UNLIMITED, UNLIMITED.burst, clock), RULES)
    rates = Rates(Rate(config.key_rate, config.key_burst), config.key_calls, clock)
    return Gate(authentication.authenticate, rates, RULES)
