"""What is counted of tries, and when."""

from functools import partial

import pytest
from perdure_testkit.waiting import eventually
from perdure_worker import tallies
from perdure_worker.tallies import ATTEMPTS, SECONDS, Tallies
from prometheus_client import REGISTRY


def counted(outcome: str) -> tuple[float, float]:
    """Return how many tries ended so, and how long all of them together took."""
    tries = REGISTRY.get_sample_value(
        "perdure_worker_attempts_total", {"kind": "told", "outcome": outcome}
    )
    seconds = REGISTRY.get_sample_value("perdure_worker_attempt_seconds_sum", {"kind": "told"})
    return tries or 0.0, seconds or 0.0


def is_counted_after(before: tuple[float, float]) -> bool:
    """Tell whether tries were counted since."""
    return counted("completed") > before


async def test_tries_are_counted_together_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "GATHER_SECONDS", 0.01)
    noted = Tallies()
    for _ in range(2):
        before = counted("completed")
        noted.note("told", "lost", None)
        noted.note("told", "completed", 1.5)
        assert counted("completed") == before
        await eventually(partial(is_counted_after, before))
    assert counted("completed") == counted("lost") == (2.0, 3.0)
    ATTEMPTS.remove_by_labels({"kind": "told"})
    SECONDS.remove_by_labels({"kind": "told"})
