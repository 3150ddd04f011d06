"""The failure table of the docs names every fail point that the code declares, and no other."""

from __future__ import annotations

import re

from tools.findings import ROOT, project_files, read_sources
from tools.lint_fail_points import is_runtime_code, read_declarations

TABLE = ROOT / "docs" / "architecture" / "failures.md"
POINT = re.compile(r"`((?:ingest|coordinator|relay|worker|timer|sweeper|store|streams)\.[a-z_]+)`")


def test_the_failure_table_names_every_fail_point() -> None:
    paths = [path for path in project_files() if path.endswith(".py") and is_runtime_code(path)]
    declarations, _ = read_declarations(read_sources(paths))
    section = TABLE.read_text().partition("## A process is killed")[2].partition("\n## ")[0]
    assert set(POINT.findall(section)) == {declaration.name for declaration in declarations}
