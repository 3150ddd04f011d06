"""Durations in words."""

from __future__ import annotations

from datetime import timedelta

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def in_words(duration: timedelta) -> str:
    """Return a duration in its two largest units, such as `2 h 5 min`."""
    rest = max(int(duration.total_seconds()), 0)
    parts: list[str] = []
    for seconds, unit in _UNITS:
        count, rest = divmod(rest, seconds)
        if count and len(parts) < 2:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
