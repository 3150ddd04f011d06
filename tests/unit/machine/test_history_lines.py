"""The lines of a run's history: each that is recorded has its sentence."""

import re
from pathlib import Path

import pytest
from perdure_machine import decide
from perdure_machine.history import KINDS, describe


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_line_says_something_without_its_details(kind: str) -> None:
    assert describe(kind, {})


def test_a_line_of_a_newer_version_is_shown_by_its_name() -> None:
    assert describe("step_parked_again", {"node": "a"}) == "step parked again"


def test_every_line_that_a_decision_records_has_its_sentence_and_none_is_left_over() -> None:
    sources = Path(decide.__file__).parent.glob("*.py")
    recorded = {
        kind
        for source in sources
        for kind in re.findall(
            r'\.record(?:_order)?\(\s*"(\w+)"', source.read_text(encoding="utf-8")
        )
    }
    assert recorded == KINDS
