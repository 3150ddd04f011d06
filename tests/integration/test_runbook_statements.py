"""What the runbooks tell people to type fits the schema, the metrics and the commands there are."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from perdure_testkit.database import Database

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))

BLOCK = re.compile(r"^ *```sql\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(SELECT [^`]+)`")
METRIC = re.compile(r"perdure_[a-z_]+(?=[`{ )])")
DEFINED = re.compile(r'(?:counter|gauge|histogram)\(\s*"([a-z_]+)"')


def statements() -> list[object]:
    """Return every statement of every page, named after its page."""
    return [
        pytest.param(textwrap.dedent(found), id=f"{page.stem}-{number}")
        for page in PAGES
        for number, found in enumerate(
            [*BLOCK.findall(page.read_text()), *INLINE.findall(page.read_text())], 1
        )
    ]


@pytest.mark.parametrize("statement", statements())
async def test_the_statements_of_a_runbook_run(database: Database, statement: str) -> None:
    connection = await database.connect()
    await connection.execute(statement)


def test_the_metrics_of_the_runbooks_exist() -> None:
    root = RUNBOOKS.parents[1]
    defined = {
        f"perdure_{name}"
        for folder in ("libs", "services")
        for path in (root / folder).rglob("perdure_*/**/*.py")
        for name in DEFINED.findall(path.read_text())
    }
    named = {name for page in PAGES for name in METRIC.findall(page.read_text())}
    assert named - defined - {"perdure_store"} == set()
    assert len(named) > 10


def test_every_runbook_is_listed() -> None:
    index = (RUNBOOKS / "README.md").read_text()
    assert [page.name for page in PAGES if f"({page.name})" not in index] == ["README.md"]
