import pytest
from perdure_testkit.units import MATRIX, ONE_ENGINE, turn_of, unit_of

from tools.findings import project_files

DEATH = f"{MATRIX}::test_a_run_survives_a_death_at"


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/chaos/test_stalls.py::test_a", "tests/chaos/"),
        ("tests/e2e/test_cancel.py::test_a[x::y]", "tests/e2e/"),
        (f"{DEATH}[coordinator-x.before]", f"{DEATH}[coordinator-"),
        (f"{DEATH}[relay-x.before]", MATRIX),
        (f"{MATRIX}::test_a", MATRIX),
        ("tests/crash/test_crash_migrations.py::test_a", "tests/crash/test_crash_migrations.py"),
        ("tests/unit/test_a.py::TestB::test_c", "tests/unit/test_a.py"),
    ],
)
def test_tests_of_one_engine_are_one_unit_and_others_go_by_file(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_every_unit_with_an_engine_has_tests() -> None:
    paths = project_files()

    starts = [start.partition("::")[0] for start in ONE_ENGINE]
    assert all(any(path.startswith(start) for path in paths) for start in starts)


def test_engines_come_first_and_the_longest_before_the_others() -> None:
    engines = [f"{DEATH}[coordinator-x.before]", f"{MATRIX}::test_a", "tests/e2e/test_a.py::test"]
    others = ["tests/chaos.py::test_a", "tests/unit/test_b.py::test_a"]
    turns = [turn_of(nodeid) for nodeid in [*engines, *others]]
    assert turns == sorted(turns)
    assert turns[2] < turns[3] == turns[4]
