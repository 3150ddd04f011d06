"""Turns of orgs, for when more is due than a pass takes: each begins behind the last org served."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_store.timers import NearTimer

ORGS_A_PASS = 20
TIMERS_A_PASS = 1000
"""Shared by the orgs of a turn: 50 for each of 20, all for one that is alone."""

FIRST = ""
"""Before every org."""


def next_cursor(picked: Sequence[NearTimer]) -> str:
    """Return where the next turn begins: behind the last org, or at the front after a short one.

    The database picked in its own order of names, so its last org is the last.
    """
    orgs = {timer.org for timer in picked}
    return picked[-1].org if len(orgs) == ORGS_A_PASS else FIRST


def soonest(picked: Sequence[NearTimer]) -> float | None:
    """Return the seconds until the next timer that was not due yet, or None."""
    return min((timer.remaining for timer in picked if timer.remaining > 0), default=None)
