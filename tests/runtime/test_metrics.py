from collections.abc import Awaitable, Callable

import pytest
from perdure_runtime import metrics
from perdure_runtime.clock import FakeClock
from perdure_runtime.lifecycle import Service
from prometheus_client import REGISTRY


def test_every_name_has_the_prefix_of_the_project() -> None:
    made = metrics.gauge("test_made_seconds", "Made.")
    made.set(2)
    assert REGISTRY.get_sample_value("perdure_test_made_seconds") == 2
    REGISTRY.unregister(made)


@pytest.mark.parametrize("label", ["run", "run_id", "step", "worker_id"])
def test_labels_without_bound_are_refused(label: str) -> None:
    with pytest.raises(ValueError, match="labels without bound"):
        metrics.counter("test_refused_total", "Refused.", (label,))


def test_a_counter_is_named_as_one() -> None:
    with pytest.raises(ValueError, match="_total"):
        metrics.counter("test_refused", "Refused.")


def test_the_build_is_shown() -> None:
    metrics.show_build("relay")
    samples = [s for family in metrics.BUILD_INFO.collect() for s in family.samples]
    assert [s.labels["version"] for s in samples if s.labels["service"] == "relay"] == ["0.1.0"]


async def test_the_lag_is_how_late_the_loop_ran_a_timer() -> None:
    class LateClock(FakeClock):
        """Each look at the clock finds that a tenth of a second has gone by unnoticed."""

        late = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.late

    clock = LateClock()
    lag = metrics.LoopLag(interval=1.0, clock=clock)
    await lag.start()
    await clock.blocked()
    clock.late = 0.1
    await clock.advance(1.0)
    await lag.stop()
    assert lag.seconds == pytest.approx(0.1)
    assert REGISTRY.get_sample_value("perdure_event_loop_lag_seconds") == pytest.approx(0.1)


async def test_the_lag_keeps_the_start_stop_contract(
    startstop_stress: Callable[[Service], Awaitable[None]],
) -> None:
    await startstop_stress(metrics.LoopLag())
