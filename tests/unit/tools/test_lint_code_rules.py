"""The rules that no other linter has: purity, tests without sleeps, files of one idea."""

import ast
from pathlib import Path

import pytest

from tools.findings import Source
from tools.lint_code_rules import (
    MAX_LINES,
    habits_of_tests,
    impure_calls,
    is_test,
    long_files,
)


def source(code: str) -> Source:
    return Source("a.py", ast.parse(code))


@pytest.mark.parametrize(
    "call", ["datetime.now(UTC)", "datetime.datetime.now()", "uuid4()", "uuid.uuid4()", "open('f')"]
)
def test_the_machine_may_not_read_the_world(call: str) -> None:
    assert len(list(impure_calls(source(f"x = {call}\n")))) == 1


def test_the_machine_may_calculate_with_dates() -> None:
    assert list(impure_calls(source("x = datetime.fromisoformat(text) + timedelta(1)\n"))) == []


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(1)",
        "await asyncio.sleep(0)",
        "from asyncio import sleep",
        "from time import sleep as nap",
        "pytest.skip('no server')",
        "@pytest.mark.skipif(True, reason='x')\ndef f(): ...",
        "nap = time.sleep",
    ],
)
def test_a_test_may_not_sleep_or_skip(code: str) -> None:
    assert len(list(habits_of_tests(source(code)))) == 1


def test_a_test_may_wait_for_an_event() -> None:
    assert list(habits_of_tests(source("await asyncio.wait_for(event.wait(), 5)\n"))) == []


def test_a_benchmark_may_pace_its_load() -> None:
    assert is_test("tests/unit/bench/test_bench_figures.py")
    assert not is_test("tests/bench/jobs.py")
    assert not is_test("libs/machine/perdure_machine/view.py")


def test_a_file_of_more_than_one_idea_is_found(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    (tmp_path / "fits.py").write_text("x = 1\n" * MAX_LINES)
    (tmp_path / "long.json").write_text("\n" * (MAX_LINES + 1))
    found = long_files(["long.py", "fits.py", "long.json"], tmp_path)
    assert [finding.path for finding in found] == ["long.py"]
