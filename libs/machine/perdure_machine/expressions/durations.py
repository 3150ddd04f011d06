"""Durations as people write them: `500ms`, `10s`, `5m`, `2h`, `3d`, or a number of seconds."""

from __future__ import annotations

import re

MAX_SECONDS = 10 * 366 * 86_400.0
"""Longest duration: ten years."""

FORM = r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?(ms|s|m|h|d)$"
"""How a duration is written; the definition's schema uses the same pattern."""

_FORM = re.compile(FORM)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def parse_duration(value: str | float) -> float:
    """Return seconds; raises ValueError that says what is wrong."""
    seconds = _of_text(value) if isinstance(value, str) else value
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError("it is not between 0 and ten years")
    return float(seconds)


def _of_text(text: str) -> float:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no duration; write 500ms, 10s, 5m, 2h or 3d")
    return float(match[1] + (match[2] or "")) * _UNIT_SECONDS[match[3]]
