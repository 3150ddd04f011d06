"""The lanes that every engine has from the start, as the first migration makes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.definition.model import SLOW_RETRY
from perdure_machine.lanes import Lane, new_lane
from perdure_machine.replacing import replace

DEFAULT_LANES: Mapping[str, Lane] = MappingProxyType(
    {"io": new_lane("io"), "slow": replace(new_lane("slow"), retry=SLOW_RETRY)}
)
"""Lanes by name."""
