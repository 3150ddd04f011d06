"""Rounds of ours and of the peers as medians, ratios, a table and a line of JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence

from tests.bench.figures import short

OURS = "perdure"
MEASURES = ("chain_steps_per_s", "chain_step_p50_ms", "jobs_per_s")
"""Of the first and the last more is better, of the second less."""

Round = Mapping[str, float]
"""By measure; what somebody has not is left out."""


def medians(rounds: Sequence[Round]) -> Mapping[str, float | None]:
    """Return the median of each measure over the rounds, None if there is none."""
    found = {name: [one[name] for one in rounds if name in one] for name in MEASURES}
    return {name: statistics.median(some) if some else None for name, some in found.items()}


def against(ours: Mapping[str, float | None], theirs: Mapping[str, float | None]) -> Round:
    """Return ours over theirs for each measure that both have."""
    pairs = {name: (ours[name], theirs[name]) for name in MEASURES}
    return {name: a / b for name, (a, b) in pairs.items() if a is not None and b}


def table(rounds: Mapping[str, Sequence[Round]]) -> str:
    """Return a line for each contestant, with ours over theirs in brackets."""
    ours = medians(rounds.get(OURS, ()))
    head = f"{'':16}" + "".join(f"{name:>28}" for name in MEASURES)
    lines = [_line(name, medians(some), ours) for name, some in rounds.items()]
    return "\n".join([head, *lines])


def last_line(rounds: Mapping[str, Sequence[Round]], missing: Mapping[str, str]) -> str:
    """Return one JSON object: medians of each, `vs_<peer>` as ours over theirs, who is missing."""
    found = {name: medians(some) for name, some in rounds.items()}
    ours = found.get(OURS, medians(()))
    said: dict[str, object] = {name: _rounded(values) for name, values in found.items()}
    for name, values in found.items():
        if name != OURS:
            ratios = against(ours, values)
            said[f"vs_{name}"] = _rounded({key: ratios.get(key) for key in MEASURES})
    return json.dumps({**said, "not_had": dict(missing)})


def _line(name: str, values: Mapping[str, float | None], ours: Mapping[str, float | None]) -> str:
    ratios = {} if name == OURS else against(ours, values)
    cells = [_cell(values[key], ratios.get(key)) for key in MEASURES]
    return f"{name:16}" + "".join(f"{cell:>28}" for cell in cells)


def _cell(value: float | None, times: float | None) -> str:
    if value is None:
        return "-"
    return f"{short(value):g}" + ("" if times is None else f" ({times:.2f})")


def _rounded(values: Mapping[str, float | None]) -> Mapping[str, float | None]:
    return {key: None if value is None else short(value) for key, value in values.items()}
