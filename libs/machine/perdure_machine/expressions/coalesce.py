"""`coalesce(a, b, ..., last)`: the first that is neither absent nor null, else null.

CEL has no such function and cannot have it, because a function's arguments are evaluated before it
is called. So it is written out: every argument but the last is a plain path, which CEL can ask for
as an optional; the last may be any expression.
"""

from __future__ import annotations

import re

from perdure_machine.expressions.errors import ExpressionInvalid
from perdure_machine.expressions.text import STRING

_CALL = re.compile(rf"{STRING}|//[^\n]*|(?<![\w.])coalesce\s*\(", re.DOTALL)
_STEP = re.compile(rf"{STRING}|//[^\n]*|[()\[\]{{}},]", re.DOTALL)
_NAME = r"[A-Za-z_]\w*"
_KEY = rf"\.\s*(?:{_NAME}|`[^`]+`)|\[\s*(?:\d+|'[^'\\]*'|\"[^\"\\]*\")\s*\]"
_PATH = re.compile(rf"\s*({_NAME})((?:\s*(?:{_KEY}))*)\s*")
_KEY_OPENING = re.compile(rf"({_KEY})")


def arguments(source: str) -> tuple[str, ...] | None:
    """Return the arguments if all of `source` is one call of coalesce, else None."""
    call = _first_call(source)
    if call is None or source[: call.start()].strip():
        return None
    parts, end = _split(source, call.end())
    return None if source[end:].strip() else parts


def expand(source: str) -> str:
    """Return `source` with each call of coalesce written out in CEL."""
    call = _first_call(source)
    if call is None:
        return source
    parts, end = _split(source, call.end())
    return source[: call.start()] + _written_out(parts, source) + expand(source[end:])


def _first_call(source: str) -> re.Match[str] | None:
    return next((m for m in _CALL.finditer(source) if m[0].startswith("coalesce")), None)


def _split(source: str, start: int) -> tuple[tuple[str, ...], int]:
    """Return the arguments that begin at `start` and where the call ends."""
    parts, depth, begin = [], 0, start
    for match in _STEP.finditer(source, start):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}" and depth:
            depth -= 1
        elif depth == 0 and match[0] in ",)":
            parts.append(source[begin : match.start()].strip())
            begin = match.end()
            if match[0] == ")":
                return tuple(parts), begin
    raise ExpressionInvalid("'coalesce(' is never closed", source)


def _written_out(parts: tuple[str, ...], source: str) -> str:
    written = _last(parts[-1])
    for part in reversed(parts[:-1]):
        optional = _optional(part)
        if optional is None:
            raise ExpressionInvalid(
                f"'{part}' is no plain path; only the last argument of coalesce may compute",
                source,
            )
        value = f"{optional}.orValue(null)"
        written = f"({value} != null ? {value} : {written})"
    return written


def _last(part: str) -> str:
    optional = _optional(part)
    return f"{optional}.orValue(null)" if optional else f"({expand(part)})"


def _optional(part: str) -> str | None:
    """Return a path in its optional form: `a.b[0]` becomes `a.?b[?0]`."""
    match = _PATH.fullmatch(part)
    if match is None or not match[2].strip():
        return None
    keys = _KEY_OPENING.sub(lambda key: key[1][0] + "?" + key[1][1:].lstrip(), match[2])
    return match[1] + keys
