"""What `make bench-load` says of a stretch of load: names and arithmetic, without a measure."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from perdure_store.apply.hand_overs import WRITE_HAND_OVERS

from tests.bench.load.__main__ import main
from tests.bench.load.counters import Counters
from tests.bench.load.measuring import Stretch
from tests.bench.load.processes import name_of, of_postgres
from tests.bench.load.push import Place
from tests.bench.load.report import brief, report
from tests.bench.load.waits import Waits

LOG = {"bytes": 2_400_000.0, "full_pages": 3.0, "commits": 500.0, "syncs": 100.0, "sync_ms": 200.0}
ROW = {"inserted": 1000.0, "updated": 500.0, "in_place": 250.0, "deleted": 0.0,
       "heap": 120_000.0, "indexes": 50_000.0, "dead": 250.0, "vacuums": 1.0}  # fmt: skip


def _stretch() -> Stretch:
    counters = Counters(LOG, {"steps": ROW}, {"SELECT 1": {"calls": 10.0, "ms": 50.0}})
    waits = Waits(looks=10, seen=Counter({("coordinator", "IO WalSync"): 5}))
    cpu = {"client": 0.01, "coordinator": 0.2, "pg:coordinator": 0.1, "pg:relay": 0.02}
    return Stretch("chains", 1000, 0.5, cpu, counters, waits)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("postgres: perdure_coordinator perdure 127.0.0.1(40152) INSERT", "pg:coordinator"),
        ("postgres: postgres perdure 127.0.0.1(40152) idle", "pg:measuring"),
        ("postgres: io worker 2", "pg:io worker"),
        ("postgres: walwriter ", "pg:walwriter"),
        ("/x/postgres -D /y/data -c config_file=/y/postgresql.conf", "pg:main"),
        ("python -m perdure_worker", "worker"),
        ("valkey-server 127.0.0.1:6379", "valkey"),
        ("sleep 1", "other"),
    ],
)
def test_a_process_is_named_by_what_it_does(command: str, name: str) -> None:
    assert name_of(command) == name


def test_all_processes_of_postgresql_count_as_its_cost() -> None:
    assert of_postgres({"pg:coordinator": 2.0, "pg:ended": 1.0, "coordinator": 9.0}) == 3.0


def test_a_stretch_is_told_by_the_step() -> None:
    words = [" ".join(line.split()) for line in report(_stretch()).splitlines()]
    assert words[0] == "chains: 1,000 steps in 0.5 s, 2,000 a second"
    assert "coordinator 200" in words
    assert "PostgreSQL 120" in words
    assert "all 330" in words
    assert "bytes 2400, of which full pages 3" in words
    assert "a sync 2.00 ms, syncing 40% of the time" in words
    assert "steps 1.00 0.50 0.25 0.00 120 50 250 1" in words
    assert "0.50 coordinator IO WalSync" in words
    assert "100% 50.0 us, 0.0100 calls: SELECT 1" in words


def test_a_stretch_is_told_in_one_line() -> None:
    words = " ".join(brief(_stretch()).split())
    assert "2,000 steps/s, PostgreSQL 120 us a step, 0.24 cores" in words
    assert words.endswith("200 syncs/s of 2.00 ms; IO WalSync 0.50")


def test_counters_are_told_apart_by_what_was_before() -> None:
    before = Counters(LOG, {}, {})
    after = Counters({**LOG, "bytes": 2_500_000.0}, {"steps": ROW}, {})
    assert after.since(before).log["bytes"] == 100_000
    assert after.since(before).tables["steps"] == ROW


def test_a_push_gives_the_arguments_that_the_statement_takes() -> None:
    place = Place(UUID(int=1), revision=4, step=1)
    first, second = place.row(0), place.row(1)
    assert (first[1], first[2], first[4]) == (4, 1, "n1")
    assert (second[1], second[2], second[4]) == (5, 2, "n2")
    ((_, arguments),) = WRITE_HAND_OVERS.queries([first, second])
    assert len(arguments) == len(first)


def test_a_load_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 2
    assert "there are chains, jobs, push" in capsys.readouterr().err
