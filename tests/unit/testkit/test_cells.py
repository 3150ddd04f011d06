"""The model of cells: what is placed where, what is moved, and what a busy or absent cell costs."""

from __future__ import annotations

import math

import pytest
from perdure_testkit.cells.__main__ import main
from perdure_testkit.cells.cell import CellSize, catching_up, longest_backlog, step_ms
from perdure_testkit.cells.growth import TARGET, Growth, grow
from perdure_testkit.cells.load import Org, skewed
from perdure_testkit.cells.routes import SLOTS, WHOLE, Routes, Unit, cells_at_least

SIZE = CellSize(steps_per_s=1000, step_ms=2)


def test_a_step_waits_longer_the_fuller_its_cell_and_for_ever_in_a_full_one() -> None:
    assert step_ms(SIZE, 0) == 2
    assert step_ms(SIZE, 0.5) == pytest.approx(3)
    assert step_ms(SIZE, 0.9) == pytest.approx(11)
    assert step_ms(SIZE, 1) == math.inf


def test_what_a_minute_cannot_do_is_done_in_the_next() -> None:
    assert longest_backlog(SIZE, [500, 1500, 500, 900]) == pytest.approx(30)
    assert longest_backlog(SIZE, [1500, 1500, 0]) == pytest.approx(60)
    assert longest_backlog(SIZE, [1000] * 5) == 0


def test_a_cell_that_was_away_catches_up_with_what_it_has_left() -> None:
    assert catching_up(300, 0.6) == pytest.approx(450)
    assert catching_up(300, 1) == math.inf


def test_a_load_is_skewed_and_whole_and_the_same_under_the_same_seed() -> None:
    orgs = skewed(1, 100, 5000, 1.0, stage=2)
    assert math.fsum(org.steps_per_s for org in orgs) == pytest.approx(5000)
    assert max(org.steps_per_s for org in orgs) > 5 * 5000 / 100
    assert orgs == skewed(1, 100, 5000, 1.0, stage=2)
    assert orgs != skewed(2, 100, 5000, 1.0, stage=2)


def test_every_org_has_a_cell_and_stays_in_it_while_nothing_is_moved() -> None:
    routes = Routes(SIZE)
    routes.update([Org(number, 100) for number in range(20)])
    before = dict(routes.cell_of)
    assert len(routes.loads) == cells_at_least(SIZE, 2000) == 4
    routes.update([Org(number, 101) for number in range(21)])
    assert before.items() <= routes.cell_of.items()
    assert not routes.rebalance()


def test_an_org_that_needs_more_than_a_cell_is_spread_by_its_slots() -> None:
    routes = Routes(SIZE)
    routes.update([Org(0, 100), Org(1, 4000)])
    assert routes.split_orgs() == 1
    assert Unit(0, WHOLE) in routes.cell_of
    assert len({routes.cell_of[Unit(1, slot)] for slot in range(SLOTS)}) >= 4
    assert max(routes.loads) <= SIZE.steps_per_s


def test_an_org_that_outgrows_its_cell_leaves_it_slot_by_slot() -> None:
    routes = Routes(SIZE)
    routes.update([Org(0, 400), Org(1, 100)])
    routes.update([Org(0, 1200), Org(1, 100)])
    assert routes.loads == [1300]
    moved = routes.rebalance()
    assert len([unit for unit in moved if unit.org == 0 and unit.slot != WHOLE]) > SLOTS / 4
    assert max(routes.loads) <= SIZE.high * SIZE.steps_per_s
    assert math.fsum(routes.loads) == pytest.approx(1300)


def test_a_load_that_grows_to_a_million_steps_a_second_is_carried() -> None:
    size = CellSize(steps_per_s=40_000, step_ms=2)
    stages = list(grow(size, Growth(first=10_000, stages=5, steps_per_org=1000)))
    last = stages[-1]
    assert last.steps_per_s == pytest.approx(TARGET)
    assert last.cells_at_least == 42
    assert last.cells <= 1.2 * last.cells_at_least
    assert last.split_orgs > 0
    for stage in stages:
        assert stage.busiest_fill <= size.high
        assert stage.busiest_share >= 1 / stage.cells
    assert stages == list(grow(size, Growth(first=10_000, stages=5, steps_per_org=1000)))


def test_the_table_of_cells_has_a_line_for_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["200000", "--stages", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "1,000"
    assert lines[2].split()[0] == "1,000,000"
