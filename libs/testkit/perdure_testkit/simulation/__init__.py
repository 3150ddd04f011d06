"""The whole engine in one thread, under a seed and a clock of its own, with everything going wrong.

    case = case_of(7)
    outcome = simulate(case)
    if outcome.violation is not None:
        print(report(*shrink(case, outcome, simulate)))

`docs/architecture/simulation.md` says what is modelled and what is not.
"""

from perdure_testkit.simulation.case import Case, case_of
from perdure_testkit.simulation.shrinking import shrink
from perdure_testkit.simulation.telling import report
from perdure_testkit.simulation.world import Outcome, simulate

__all__ = ["Case", "Outcome", "case_of", "report", "shrink", "simulate"]
