"""The failure table of the docs names every fail point that the code declares, and no other."""

from __future__ import annotations

import re

from tests.crash.matrix import declared_points
from tools.findings import ROOT

TABLE = ROOT / "docs" / "architecture" / "failures.md"
POINT = re.compile(r"`((?:ingest|coordinator|relay|worker|timer|sweeper|store|streams)\.[a-z_]+)`")


def test_the_failure_table_names_every_fail_point() -> None:
    section = TABLE.read_text().partition("## A process is killed")[2].partition("\n## ")[0]
    assert set(POINT.findall(section)) == set(declared_points())
