"""Gives the tests of one unit to the same test process.

pytest-xdist's own groups (`--dist loadgroup`) are without effect from pytest 9 on.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from perdure_testkit.units import unit_of


class EngineScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives out units of tests, an engine's or a file's, in the order of their collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
