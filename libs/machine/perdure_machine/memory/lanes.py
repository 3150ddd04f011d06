"""The lanes that every engine has from the start, as the first migration makes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.definition.model import RetryRule
from perdure_machine.lanes import Lane


def _lane(name: str, retries: int) -> Lane:
    return Lane(
        name=name,
        shards=1,
        stream_ceiling=1000,
        hand_out=10.0,
        lease=30.0,
        poison_limit=3,
        retry=RetryRule(on=frozenset(), max=retries, base=1.0, factor=2.0, cap=300.0),
    )


DEFAULT_LANES: Mapping[str, Lane] = MappingProxyType(
    {"io": _lane("io", 5), "slow": _lane("slow", 1)}
)
"""Lanes by name."""
