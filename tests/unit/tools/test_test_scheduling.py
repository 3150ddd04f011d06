import pytest
from perdure_testkit.units import MATRIX, ONE_ENGINE, turn_of, unit_of

from tools.findings import project_files


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/chaos/test_stalls.py::test_a", "tests/chaos/"),
        ("tests/e2e/test_cancel.py::test_a[x::y]", "tests/e2e/"),
        (f"{MATRIX}::test_a[x]", MATRIX),
        ("tests/crash/test_crash_migrations.py::test_a", "tests/crash/test_crash_migrations.py"),
        ("tests/unit/test_a.py::TestB::test_c", "tests/unit/test_a.py"),
    ],
)
def test_tests_of_one_engine_are_one_unit_and_others_go_by_file(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_every_unit_with_an_engine_has_tests() -> None:
    paths = project_files()

    assert all(any(path.startswith(start) for path in paths) for start in ONE_ENGINE)


def test_the_crash_matrix_comes_first_and_the_others_as_they_are_collected() -> None:
    others = ["tests/chaos/test_a.py::test_a", "tests/e2e/test_a.py::test_a", "tests/b.py::test_b"]
    assert turn_of(f"{MATRIX}::test_a[x]") < min(map(turn_of, others))
    assert len(set(map(turn_of, others))) == 1
