"""Every example can be published, without a doubt about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from perdure_machine.definition import parse

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCUMENTS = sorted(EXAMPLES.glob("*/*.yaml"))
KINDS_OF_EXAMPLES = 6


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_is_published_without_a_warning(path: Path) -> None:
    assert parse(path.read_bytes(), known_lanes=frozenset({"io", "slow"})).warnings == ()


def test_each_example_tells_a_reader_what_it_is() -> None:
    folders = {path.parent for path in DOCUMENTS}
    assert len(folders) >= KINDS_OF_EXAMPLES
    listed = (EXAMPLES / "README.md").read_text()
    for folder in folders:
        assert (folder / "README.md").exists()
        assert f"{folder.name}/README.md" in listed
