"""Every row of the reference of expressions is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from perdure_machine.expressions import (
    ExpressionFailed,
    NodeValue,
    RunFacts,
    Scope,
    compile_template,
    render,
)
from perdure_machine.payload import cut

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "expressions.md"
TEXT = PAGE.read_text()
ROW = re.compile(r"^\| `([^|]+|.*\|\|.*)` \| (?:`(.*)`|fails: ([A-Z_]+)) \|$", re.MULTILINE)
ROWS = [match.groups() for match in ROW.finditer(TEXT)]


def sample() -> Scope:
    data = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert data is not None
    raw = data[1].encode()
    nodes = {
        id_: NodeValue(
            node["status"], cut(raw, ("nodes", id_, "output")), cut(raw, ("nodes", id_, "error"))
        )
        for id_, node in json.loads(raw)["nodes"].items()
    }
    run = RunFacts(**json.loads(raw)["run"])
    given = cut(raw, ("input",))
    assert given is not None
    join, error = cut(raw, ("join",)), cut(raw, ("error",))
    loop = {name: json.dumps(value).encode() for name, value in json.loads(raw)["loop"].items()}
    return Scope(given, nodes, run, join, error, loop, cut(raw, ("signal",)))


@pytest.mark.parametrize(("source", "value", "code"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_of_the_page_is_true(source: str, value: str | None, code: str | None) -> None:
    template = compile_template("${" + source + "}")
    if code is not None:
        with pytest.raises(ExpressionFailed) as caught:
            render(template, sample())
        assert caught.value.expression_code == code
    else:
        assert render(template, sample()).decode().replace(", ", ",") == (value or "").replace(
            ", ", ","
        )


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 60
