"""Paths that are data: `a.b[0]["c.d"]` leads from a value to one inside of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from perdure_machine.payload import Path

MAX_KEYS = 64
"""Longest path, in keys."""

_KEY = re.compile(r"\.?([^.\[\]\"']+)|\[(\d{1,9})\]|\[(?:\"([^\"]*)\"|'([^']*)')\]")


class NoPathError(ValueError):
    """A text that is no path."""


def keys_of(text: str) -> Path:
    """Return the keys of a path; the empty one leads to the value itself. Raises `NoPathError`."""
    keys = tuple(islice(_keys(text), MAX_KEYS + 1))
    if len(keys) > MAX_KEYS:
        raise NoPathError(f"a path has at most {MAX_KEYS} keys")
    return keys


def at(value: object, path: Path) -> tuple[object, ...]:
    """Return the value that `path` leads to, or nothing where it is absent."""
    for key in path:
        if isinstance(key, int):
            inside = isinstance(value, Sequence) and not isinstance(value, str | bytes)
            if not inside or key >= len(value):  # type: ignore[arg-type]
                return ()
        elif not isinstance(value, Mapping) or key not in value:
            return ()
        value = value[key]  # type: ignore[index]
    return (value,)


def _keys(text: str) -> Iterator[str | int]:
    position = 0
    while position < len(text):
        found = _KEY.match(text, position)
        if found is None or (position == 0 and found[0].startswith(".")):
            raise NoPathError(f"'{text[:80]}' is no path at character {position + 1}")
        if position and found[1] is not None and not found[0].startswith("."):
            raise NoPathError(f"'{text[:80]}' is no path at character {position + 1}")
        name, index, *quoted = found.groups()
        yield int(index) if index else name or quoted[0] or quoted[1] or ""
        position = found.end()
