from pathlib import Path

import pytest
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_worker.registry import load_handlers

TWO_SETS = """
import perdure
one, other = perdure.Handlers(), perdure.Handlers()
same = one
one.add("a", lambda given, ctx: 1)
other.add("b", lambda given, ctx: 2)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def problems(*paths: str) -> str:
    with pytest.raises(InvalidArgument) as refused:
        load_handlers(paths)
    assert refused.value.reason is Reason.CONFIG_INVALID
    return refused.value.message


def test_every_set_of_a_module_is_found(folder: Path) -> None:
    (folder / "registry_two.py").write_text(TWO_SETS)
    assert sorted(load_handlers(["registry_two"])) == ["a", "b"]


def test_a_set_that_two_modules_show_counts_once(folder: Path) -> None:
    (folder / "registry_first.py").write_text(TWO_SETS)
    (folder / "registry_second.py").write_text("from registry_first import *\n")
    assert sorted(load_handlers(["registry_first", "registry_second"])) == ["a", "b"]


def test_a_name_in_two_modules_is_refused_with_both(folder: Path) -> None:
    (folder / "registry_left.py").write_text(TWO_SETS)
    (folder / "registry_right.py").write_text(TWO_SETS)
    message = problems("registry_left", "registry_right")
    assert "handler 'a' stands in registry_left and in registry_right" in message


def test_everything_wrong_is_said_at_once(folder: Path) -> None:
    (folder / "registry_none.py").write_text("x = 1\n")
    (folder / "registry_exits.py").write_text("raise SystemExit(2)\n")
    message = problems("registry_none", "registry_exits", "registry_absent")
    assert "registry_none (" in message
    assert "holds no perdure.Handlers object" in message
    assert "registry_exits cannot be imported: SystemExit" in message
    assert "registry_absent cannot be imported: ModuleNotFoundError" in message
