"""The rotating cursor over orgs: a pass begins behind the last org that the pass before served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perdure_store.timers import NearTimer

ORGS_A_PASS = 20
TIMERS_AN_ORG = 50

FIRST = ""
"""Before every org."""


def next_cursor(picked: Sequence[NearTimer]) -> str:
    """Return where the next pass begins: behind the last org, or at the front after a short one.

    The database picked in its own order of names, so its last org is the last.
    """
    orgs = {timer.org for timer in picked}
    return picked[-1].org if len(orgs) == ORGS_A_PASS else FIRST


def is_full(picked: Sequence[NearTimer], cursor: str) -> bool:
    """Tell whether more may be due: an org or the pass was full, or it began in the middle."""
    counts = Counter(timer.org for timer in picked)
    return (
        cursor != FIRST
        or len(counts) == ORGS_A_PASS
        or any(count == TIMERS_AN_ORG for count in counts.values())
    )


def soonest(picked: Sequence[NearTimer]) -> float | None:
    """Return the seconds until the next timer that was not due yet, or None."""
    return min((timer.remaining for timer in picked if timer.remaining > 0), default=None)
