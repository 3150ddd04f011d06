"""Units of tests that stay together: those of one engine, started once, or those of a file."""

from __future__ import annotations

MATRIX = "tests/crash/test_crash_matrix.py"

ONE_ENGINE = (MATRIX, "tests/chaos/", "tests/e2e/")
"""Beginnings of the paths of tests that share an engine."""


def turn_of(nodeid: str) -> int:
    """Return when a test has its turn: the crash matrix first, the others as collected.

    It takes longest, so all would wait for it; more engines at once would only slow each other.
    """
    return 0 if unit_of(nodeid) == MATRIX else 1


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to."""
    path = nodeid.partition("::")[0]
    return next((start for start in ONE_ENGINE if path.startswith(start)), path)
