"""What `make bench` says of what it measured: arithmetic and form, without a measure."""

from __future__ import annotations

import json

import pytest

from tests.bench.bench import main
from tests.bench.families import FAMILIES, chosen
from tests.bench.figures import (
    KEYS,
    Figure,
    last_line,
    median_of,
    percentile,
    ratio,
    short,
    table,
)

ISSUED = {
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
}
NULL_WHEN_QUICK = {
    "foreach_cost_ratio",
    "million_waiting_ratio",
    "fair_other_org_p99_ms",
    "tracing_5_ratio",
    "tracing_100_ratio",
}


def test_the_last_line_has_exactly_the_keys_and_null_for_what_was_not_measured() -> None:
    said = json.loads(last_line({"jobs_per_s": Figure(4321.98)}))
    assert set(said) == ISSUED
    assert said.pop("jobs_per_s") == 4322.0
    assert set(said.values()) == {None}


def test_memory_is_told_by_service_and_shown_by_the_largest() -> None:
    figures = {"rss_mb": Figure({"ingest": 90.04, "relay": 120.0})}
    assert json.loads(last_line(figures))["rss_mb"] == {"ingest": 90.04, "relay": 120.0}
    (line,) = [line for line in table(figures).splitlines() if line.startswith("rss_mb")]
    assert line.split() == ["rss_mb", "120", "ingest", "90.04,", "relay", "120"]


def test_the_table_has_a_line_for_each_measure_and_says_what_was_not_measured() -> None:
    lines = table({"jobs_per_s": median_of([1.0, 3.0, 2.0])}).splitlines()
    assert [line.split()[0] for line in lines] == list(KEYS)
    assert [line for line in lines if "not measured" not in line] == [
        "jobs_per_s                            2   of 1.0 3.0 2.0"
    ]


def test_each_measure_belongs_to_one_family() -> None:
    assert sorted(key for family in FAMILIES for key in family.keys) == sorted(KEYS)


def test_a_quick_benchmark_leaves_out_what_takes_minutes() -> None:
    measured = {key for family in chosen([], quick=True) for key in family.keys}
    assert set(KEYS) - measured == NULL_WHEN_QUICK


def test_single_measures_are_chosen_by_their_keys() -> None:
    (family,) = chosen(["commit_p50_ms"], quick=False)
    assert family.keys == ("chain_step_p50_ms", "commit_p50_ms")
    assert chosen(["million_waiting_ratio"], quick=True) == []


def test_an_unknown_measure_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "jobs_per_s,steps"]) == 2
    assert "no measure is called steps" in capsys.readouterr().err


def test_rounds_give_their_median() -> None:
    assert median_of([5.0, 1.0, 3.0]).value == 3.0
    assert median_of([4.0, 2.0]).value == 3.0
    with pytest.raises(ValueError, match="round"):
        median_of([])


def test_a_ratio_is_of_the_medians() -> None:
    assert ratio([90.0, 100.0, 10.0], [200.0, 100.0, 120.0]).value == 0.75


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)]
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    share: float, expected: float
) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="value"):
        percentile([], 0.5)


def test_figures_keep_four_digits() -> None:
    assert [short(value) for value in (0.152733, 1234.56, 98765.4)] == [0.1527, 1235.0, 98770.0]
