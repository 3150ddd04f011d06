"""How long the other side asks us to wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 86_400.0
"""The longest wait that is believed: a day. A typing error of a provider stops nobody for a year,
and who asks for more is asked again after that."""


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that Retry-After asks for, None if it asks for none that can be read.

    A date counts from the response's own Date, so a wrong clock here moves nothing (F105); `now`
    serves where there is none. A date that lies back is no wait.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return bounded_wait(float(text))  # thousands of digits are infinite, and so the cap
    due = _date(text)
    if due is None:
        return None
    sent = _date(headers.get("date", "")) or now
    return bounded_wait((due - sent).total_seconds())


def bounded_wait(seconds: float) -> float:
    """Return a wait within what is believed."""
    return min(max(0.0, seconds), MAX_RETRY_AFTER_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
