"""What was measured as numbers, a table and a line of JSON: arithmetic alone."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

KEYS = (
    "chain_step_p50_ms",
    "commit_p50_ms",
    "chain_steps_per_s",
    "jobs_per_s",
    "start_runs_per_s",
    "start_runs_batch20_per_s",
    "enqueue_to_start_p50_ms",
    "enqueue_to_start_p99_ms",
    "foreach_cost_ratio",
    "million_waiting_ratio",
    "timers_per_s",
    "timer_lateness_p99_ms",
    "fair_other_org_p99_ms",
    "rss_mb",
    "tracing_5_ratio",
    "tracing_100_ratio",
)
"""The measures, in the order in which they are printed."""

DIGITS = 4
"""Significant digits of a figure in the table and in JSON."""

Value: TypeAlias = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure: its value, by name where there are several, and what it was made of."""

    value: Value
    note: str = ""


def median_of(rounds: Sequence[float]) -> Figure:
    """Return the median of rounds, and all of them as the note. ValueError without any."""
    if not rounds:
        raise ValueError("a median needs a round")
    return Figure(statistics.median(rounds), "of " + " ".join(str(short(one)) for one in rounds))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that `share` of them do not exceed. ValueError without any."""
    if not values:
        raise ValueError("a percentile needs a value")
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def ratio(rounds: Sequence[float], against: Sequence[float]) -> Figure:
    """Return the median of rounds over the median of the others. ValueError without any."""
    upper, lower = statistics.median(rounds), statistics.median(against)
    return Figure(upper / lower, f"{short(upper)} against {short(lower)}")


def short(value: float) -> float:
    """Return a figure with as many digits as are worth reading."""
    return float(f"{value:.{DIGITS}g}")


def table(figures: Mapping[str, Figure]) -> str:
    """Return one line for each measure; what was not measured says so."""
    return "\n".join(_line(key, figures.get(key)) for key in KEYS)


def last_line(figures: Mapping[str, Figure]) -> str:
    """Return one JSON object with every key; what was not measured is null."""
    return json.dumps({key: _plain(figures.get(key)) for key in KEYS})


def _line(key: str, figure: Figure | None) -> str:
    if figure is None:
        return f"{key:26} {'not measured':>12}"
    if isinstance(figure.value, Mapping):
        parts = [f"{name} {short(value):g}" for name, value in figure.value.items()]
        return f"{key:26} {max(figure.value.values()):12g}   {', '.join(parts)}"
    return f"{key:26} {short(figure.value):12g}   {figure.note}".rstrip()


def _plain(figure: Figure | None) -> object:
    if figure is None:
        return None
    if isinstance(figure.value, Mapping):
        return {name: short(value) for name, value in figure.value.items()}
    return short(figure.value)
