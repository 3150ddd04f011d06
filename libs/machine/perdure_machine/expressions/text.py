"""Finds `${...}` in text; CEL's strings and braces count: `${{'a': '}'}.a}` is one expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure_machine.expressions.errors import ExpressionInvalid

OPENING = "${"
ESCAPED_OPENING = "$${"

STRING = (
    r"[rRbB]{0,2}(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\""
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
)
_STEP = re.compile(rf"{STRING}|//[^\n]*|[{{}}]", re.DOTALL)
_OPENINGS = re.compile(r"\$\$\{|\$\{")


@dataclass(frozen=True, slots=True)
class Embedded:
    """The source of one `${...}` without its braces."""

    source: str


def split_text(text: str) -> list[str | Embedded]:
    """Return literal pieces and embedded expressions in order; `$${` stands for a literal `${`."""
    pieces: list[str | Embedded] = []
    literal, position = "", 0
    while match := _OPENINGS.search(text, position):
        literal += text[position : match.start()]
        if match[0] == ESCAPED_OPENING:
            literal, position = literal + OPENING, match.end()
            continue
        end = _closing(text, match.end())
        pieces += [literal, Embedded(text[match.end() : end].strip())]
        literal, position = "", end + 1
    pieces.append(literal + text[position:])
    return [piece for piece in pieces if piece != ""]


def _closing(text: str, start: int) -> int:
    """Return the index of the brace that closes the expression which begins at `start`."""
    depth = 0
    for match in _STEP.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}" and depth == 0:
            return match.start()
        elif match[0] == "}":
            depth -= 1
    raise ExpressionInvalid("'${' is never closed", text, "close it with '}'; '$${' is text")
