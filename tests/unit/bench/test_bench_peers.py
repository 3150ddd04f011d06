"""What `make bench-peers` says of ours and the peers: arithmetic and form, without a measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.peers import peers
from tests.bench.peers.compare import main
from tests.bench.peers.peers import PEERS, Setting
from tests.bench.peers.results import MEASURES, against, last_line, medians, table
from tests.bench.peers.turns import Turn

OURS = [
    {"chain_steps_per_s": 4000.0, "chain_step_p50_ms": 2.0, "jobs_per_s": 3000.0},
    {"chain_steps_per_s": 6000.0, "chain_step_p50_ms": 1.0, "jobs_per_s": 1000.0},
    {"chain_steps_per_s": 5000.0, "chain_step_p50_ms": 1.5, "jobs_per_s": 2000.0},
]
ROUNDS = {
    "perdure": OURS,
    "dbos": [{"chain_steps_per_s": 250.0, "chain_step_p50_ms": 3.0, "jobs_per_s": 200.0}],
    "celery": [{"jobs_per_s": 400.0}],
}


def test_a_peer_is_compared_by_medians_and_only_in_what_it_has() -> None:
    ours = medians(OURS)
    assert ours == {"chain_steps_per_s": 5000.0, "chain_step_p50_ms": 1.5, "jobs_per_s": 2000.0}
    assert against(ours, medians(ROUNDS["dbos"])) == {
        "chain_steps_per_s": 20.0,
        "chain_step_p50_ms": 0.5,
        "jobs_per_s": 10.0,
    }
    assert against(ours, medians(ROUNDS["celery"])) == {"jobs_per_s": 5.0}


def test_the_last_line_has_each_contestant_each_ratio_and_who_was_not_had() -> None:
    said = json.loads(last_line(ROUNDS, {"temporal": "no server"}))
    assert set(said) == {"perdure", "dbos", "celery", "vs_dbos", "vs_celery", "not_had"}
    assert said["vs_dbos"]["chain_steps_per_s"] == 20.0
    assert said["vs_celery"] == {
        "chain_steps_per_s": None,
        "chain_step_p50_ms": None,
        "jobs_per_s": 5.0,
    }
    assert said["not_had"] == {"temporal": "no server"}


def test_the_table_has_a_line_for_each_and_our_multiple_in_brackets() -> None:
    head, ours, dbos, celery = table(ROUNDS).splitlines()
    assert head.split() == list(MEASURES)
    assert ours.split() == ["perdure", "5000", "1.5", "2000"]
    assert dbos.split() == ["dbos", "250", "(20.00)", "3", "(0.50)", "200", "(10.00)"]
    assert celery.split() == ["celery", "-", "-", "400", "(5.00)"]


def test_a_turn_does_what_its_time_allows_and_at_least_one_whole() -> None:
    assert Turn(6.0).amount(300.0, 20) == 1800
    assert Turn(2.0).amount(1.0, 100) == 100


def test_each_peer_has_a_node_and_a_setting() -> None:
    folder = Path(peers.__file__).parent / "nodes"
    for peer in PEERS:
        assert (folder / f"{peer.module}.py").exists()
        assert peer.settings


def test_a_setting_says_how_a_peer_is_run() -> None:
    assert str(Setting(2, 16)) == "2 x 16"
    assert str(Setting(1, 128, 2)) == "1 x 128 of 2 workers"
    assert str(Setting(1, 2, pool="prefork")) == "1 x 2 prefork"


def test_an_unknown_peer_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "dbos,cron"]) == 2
    assert "no peer is called cron" in capsys.readouterr().err
