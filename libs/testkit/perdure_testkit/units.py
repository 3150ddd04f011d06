"""Units of tests that stay together: those of one engine, started once, or those of a file."""

from __future__ import annotations

MATRIX = "tests/crash/test_crash_matrix.py"

ONE_ENGINE = (
    # In parts, because one process would be busy with the whole matrix for longer than the others.
    f"{MATRIX}::test_a_run_survives_a_death_at[coordinator-",
    f"{MATRIX}::test_a_run_survives_a_death_at[ingest-",
    MATRIX,
    "tests/chaos/",
    "tests/e2e/",
)
"""Beginnings of the names of tests that share an engine; the first that fits counts.

They come first, in this order: what takes longest must not be what all others wait for.
"""


def turn_of(nodeid: str) -> int:
    """Return when a test has its turn: those of engines come first, the others as collected."""
    unit = unit_of(nodeid)
    return ONE_ENGINE.index(unit) if unit in ONE_ENGINE else len(ONE_ENGINE)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to."""
    path = nodeid.partition("::")[0]
    return next((start for start in ONE_ENGINE if nodeid.startswith(start)), path)
