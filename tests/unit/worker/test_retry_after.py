"""How long the other side asks us to wait (F043), whatever the clocks say (F105)."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from perdure_worker.executors.retry_after import MAX_RETRY_AFTER_SECONDS, retry_after

NOW = datetime(2030, 1, 1, tzinfo=UTC)
THERE = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


def http_date(when: datetime) -> str:
    return format_datetime(when, usegmt=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        (" 0 ", 0.0),
        ("86401", MAX_RETRY_AFTER_SECONDS),
        ("9" * 5000, MAX_RETRY_AFTER_SECONDS),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("\u0665", None),
    ],
)
def test_f043_seconds_are_taken_up_to_the_cap(text: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": text}, NOW) == seconds


def test_f105_a_date_counts_from_the_servers_own_date() -> None:
    headers = {"date": http_date(THERE), "retry-after": http_date(THERE + timedelta(minutes=2))}
    assert retry_after(headers, NOW) == 120.0


def test_f105_a_date_without_the_servers_own_counts_from_here() -> None:
    headers = {"retry-after": http_date(NOW + timedelta(seconds=30))}
    assert retry_after(headers, NOW) == 30.0


def test_a_date_that_lies_back_is_no_wait_and_a_far_one_is_the_cap() -> None:
    assert retry_after({"retry-after": http_date(NOW - timedelta(days=1))}, NOW) == 0.0
    far = {"retry-after": http_date(NOW + timedelta(days=400))}
    assert retry_after(far, NOW) == MAX_RETRY_AFTER_SECONDS


def test_nothing_asked_is_none() -> None:
    assert retry_after({}, NOW) is None
