"""The protocol by which an org moves between cells, with its mover dying at every action."""

from __future__ import annotations

import pytest
from perdure_testkit.cells.moving import Case, play
from perdure_testkit.cells.moving.mover import Flaws

SEEDS = range(12)
ACTIONS = range(1, 19)
"""More than a move has, so that the way back is struck too."""


@pytest.mark.parametrize("action", ACTIONS)
def test_a_move_whose_mover_dies_at_any_action_leaves_each_run_in_one_cell(action: int) -> None:
    for seed in SEEDS:
        assert play(Case(seed, frozenset({action}))) is None, seed


@pytest.mark.parametrize("action", ACTIONS)
def test_a_move_that_is_given_up_at_any_action_leaves_the_org_where_it_was(action: int) -> None:
    for seed in SEEDS:
        # It dies just before, so that the last word of the move that is given up comes late.
        assert play(Case(seed, frozenset({action}), abort_after=action)) is None, seed


def test_a_move_goes_on_after_movers_that_all_die() -> None:
    for seed in SEEDS:
        assert play(Case(seed, frozenset(range(1, 40, 2)))) is None, seed


@pytest.mark.parametrize(
    ("flaws", "law"),
    [
        (Flaws(trusts_the_route=True), "a run that was accepted is gone"),
        (Flaws(freezes_what_runs=True), "a person is asked about a call"),
        (Flaws(switches_unread=True), "a run that was accepted is gone"),
        (Flaws(serves_early=True), "a result that was taken is gone"),
        (Flaws(runs_forgotten=1), "a run that was accepted is gone"),
    ],
)
def test_the_laws_of_a_move_notice_a_guard_that_is_left_out(flaws: Flaws, law: str) -> None:
    cases = (
        Case(seed, frozenset({action}), action, flaws) for seed in range(30) for action in ACTIONS
    )
    assert any((problem := play(case)) and problem.startswith(law) for case in cases)
