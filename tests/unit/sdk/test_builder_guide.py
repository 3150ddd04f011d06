"""The guide's example makes the document that the guide shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from perdure_machine.definition import parse

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "python_builder.md"
LANES = frozenset({"io", "slow"})


def test_the_guides_python_makes_the_guides_yaml() -> None:
    python, document = re.findall(r"```(?:python|yaml)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(python, str(GUIDE), "exec"), made)
    assert made["hello"].to_yaml() == document
    assert parse(document.encode(), known_lanes=LANES).warnings == ()
