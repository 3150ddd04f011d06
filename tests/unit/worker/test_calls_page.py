"""What the documentation says of calls is what the executors do."""

from pathlib import Path

from perdure_worker.executors.verdict_page import with_tables

PAGE = Path(__file__).parents[3] / "docs" / "architecture" / "calls.md"


def test_the_page_holds_the_verdicts_as_they_are() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run python -m perdure_worker.executors.verdict_page"
