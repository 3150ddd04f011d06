"""A machine that lacks something is told what, where, and what to do."""

import subprocess
from pathlib import Path

from tools.findings import ROOT

SCRIPT = ROOT / "tools" / "bootstrap_uv.sh"


def fake_python(folder: Path, *, is_old: bool) -> Path:
    """Make a python that fails every check, or only that for venv."""
    python = folder / "python3"
    accepts = "nothing" if is_old else "*version_info*"
    python.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"{accepts}) exit 0 ;;\n"
        "--version) echo Python 3.8.10 ;;\n"
        "*) exit 1 ;;\nesac\n"
    )
    python.chmod(0o755)
    return python


def refusal(folder: Path, *arguments: str, distribution: Path | None = None) -> list[str]:
    """Run the script with only `folder` on the PATH and return the lines that it says."""
    own = distribution or folder / "absent"
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), str(folder / "uv"), *arguments],
        env={"PATH": str(folder), "DISTRIBUTION_PYTHON": str(own)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert not (folder / "uv").exists()
    return done.stderr.splitlines()


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    fake_python(tmp_path, is_old=True)
    assert refusal(tmp_path) == [
        "No Python 3.11 or newer was found.",
        "  on the PATH; python3 is Python 3.8.10",
        "  Install one, or name it: make setup PYTHON=/path/to/python3.11",
    ]


def test_a_python_that_was_named_is_not_replaced_by_another(tmp_path: Path) -> None:
    named = fake_python(tmp_path, is_old=True)
    assert refusal(tmp_path, str(named))[0] == f"PYTHON={named} is no Python 3.11 or newer."


def test_a_missing_venv_module_is_named(tmp_path: Path) -> None:
    python = fake_python(tmp_path, is_old=False)
    assert refusal(tmp_path) == [
        "Python's venv module is missing.",
        f"  {python}",
        "  Install it (Debian, Ubuntu: apt install python3-venv) and run make setup again.",
    ]


def test_the_python_of_the_distribution_comes_before_another(tmp_path: Path) -> None:
    fake_python(tmp_path, is_old=False)
    own = tmp_path / "distribution"
    own.write_text('#!/bin/sh\ncase "$*" in *venv*--clear*) echo chosen >&2; exit 1 ;; esac\n')
    own.chmod(0o755)
    assert refusal(tmp_path, distribution=own) == ["chosen"]


def test_one_with_venv_comes_before_one_without(tmp_path: Path) -> None:
    own = fake_python(tmp_path, is_old=False).rename(tmp_path / "distribution")
    other = tmp_path / "python3"
    other.write_text('#!/bin/sh\ncase "$*" in *venv*--clear*) echo chosen >&2; exit 1 ;; esac\n')
    other.chmod(0o755)
    assert refusal(tmp_path, distribution=own) == ["chosen"]
