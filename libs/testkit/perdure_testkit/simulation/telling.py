"""Tells people of a simulation that failed: its seed, what is left of it, how it went."""

from __future__ import annotations

import json

from perdure_testkit.simulation.case import Case
from perdure_testkit.simulation.world import Outcome


def report(case: Case, outcome: Outcome) -> str:
    """Return a failing case, its faults, and the last lines of its trace."""
    faults = [f"  {one}" for one in sorted(outcome.struck)] or ["  none"]
    return "\n".join(
        [
            f"seed {case.seed}: {outcome.violation}",
            f"reproduce: make simulate FROM={case.seed} SEEDS=1",
            f"input: {case.payload.decode()}, runs: {case.runs}",
            "definition:",
            json.dumps(case.document, indent=1),
            "faults:",
            *faults,
            f"the last of {outcome.events} lines:",
            *outcome.last,
        ]
    )
