"""Which measures there are, and which of them are taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.bench import chains, fairness, jobs, loops, memory, starts, timers, traces, waiting
from tests.bench.figures import KEYS, Figure
from tests.bench.rig import SLOTS, Rig, Size

USUAL_SLOTS = 16
"""A worker's slots as they are by default: the more there are, the less does a backlog matter."""


@dataclass(frozen=True, slots=True)
class Family:
    """Measures that are taken together.

    `brief`: whether a quick benchmark has time for them. `alone`: on a stack of their own, since
    they leave rows behind or start the services anew.
    """

    keys: tuple[str, ...]
    measure: Callable[[Rig, Size], Awaitable[Mapping[str, Figure]]]
    brief: bool = True
    alone: bool = False
    slots: int = SLOTS


FAMILIES = (
    Family(("chain_step_p50_ms", "commit_p50_ms"), chains.measure_alone),
    Family(("enqueue_to_start_p50_ms", "enqueue_to_start_p99_ms"), jobs.measure_start),
    Family(("timer_lateness_p99_ms", "timers_per_s"), timers.measure),
    Family(("chain_steps_per_s",), chains.measure_at_once),
    Family(("jobs_per_s",), jobs.measure_throughput),
    Family(("start_runs_per_s", "start_runs_batch20_per_s"), starts.measure),
    Family(("foreach_cost_ratio",), loops.measure, brief=False),
    Family(("rss_mb",), memory.measure),
    Family(("tracing_5_ratio", "tracing_100_ratio"), traces.measure, brief=False, alone=True),
    Family(
        ("fair_other_org_p99_ms",), fairness.measure, brief=False, alone=True, slots=USUAL_SLOTS
    ),
    Family(("million_waiting_ratio",), waiting.measure, brief=False, alone=True),
)
"""In the order in which they are taken: first those that need a system that idles."""


def chosen(only: Collection[str], *, quick: bool) -> Sequence[Family]:
    """Return the families with a key of `only`, or all, or all that are brief.

    Raises ValueError for a name that is no key.
    """
    if unknown := sorted(set(only) - set(KEYS)):
        raise ValueError(f"no measure is called {', '.join(unknown)}; there are {', '.join(KEYS)}")
    wanted = [family for family in FAMILIES if not only or set(only) & set(family.keys)]
    return [family for family in wanted if family.brief or not quick]
