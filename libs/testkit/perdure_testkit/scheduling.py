"""Which tests of a session go to the same test process.

Those of one engine do, so that it is started once; all others go by file. pytest-xdist's own groups
(`--dist loadgroup`) are without effect from pytest 9 on.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

MATRIX = "tests/crash/test_crash_matrix.py"

ONE_ENGINE = (
    "tests/chaos/",
    "tests/e2e/",
    # In parts, because one process would be busy with the whole matrix for longer than the others.
    f"{MATRIX}::test_a_run_survives_a_death_at[coordinator-",
    f"{MATRIX}::test_a_run_survives_a_death_at[ingest-",
    MATRIX,
)
"""Beginnings of the names of tests that share an engine; the first that fits counts."""


class EngineScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives out units of tests, an engine's or a file's, in the order of their collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to."""
    path = nodeid.partition("::")[0]
    return next((start for start in ONE_ENGINE if nodeid.startswith(start)), path)
