"""The lanes that every engine has from the start, as the first migration makes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.definition.model import IO_RETRY, SLOW_RETRY, RetryRule
from perdure_machine.lanes import Lane


def _lane(name: str, retry: RetryRule) -> Lane:
    return Lane(
        name,
        shards=1,
        stream_ceiling=1000,
        hand_out=10.0,
        lease=30.0,
        poison_limit=3,
        retry=retry,
    )


DEFAULT_LANES: Mapping[str, Lane] = MappingProxyType(
    {"io": _lane("io", IO_RETRY), "slow": _lane("slow", SLOW_RETRY)}
)
"""Lanes by name."""
