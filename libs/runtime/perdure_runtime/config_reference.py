"""Writes the page of all settings from the config classes of the installed services.

python -m perdure_runtime.config_reference            write docs/reference/configuration.md
python -m perdure_runtime.config_reference --check    fail if the page is not what it would be
"""

from __future__ import annotations

import argparse
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from perdure_runtime.config import (
    READ_ELSEWHERE,
    SERVICES,
    Config,
    Setting,
    about,
    registered,
    variables,
)

PAGE = Path("docs/reference/configuration.md")

HEAD = """# Configuration

Generated from the config classes by `python -m perdure_runtime.config_reference`; do not edit.

Every process reads `PERDURE_*` variables once, at its start, and refuses to start with all problems
listed if a value is wrong or a variable is unknown. A setting `PERDURE_X` of one service can be
given as `PERDURE_<SERVICE>_X` where several services share one environment; that one wins.
Secrets are never printed. Variables with the prefix `PERDURE_TEST_` are left to tests.
"""


def describe(config_class: type[Config]) -> list[tuple[str, str, str, str]]:
    """Return variable, type with range, default and help of each setting of a class."""
    kinds = typing.get_type_hints(config_class)
    return [
        (
            variables(config_class, item.name)[-1],
            _kind(kinds[item.name], about(item)),
            _default(item),
            about(item).help,
        )
        for item in fields(config_class)
    ]


def render(classes: Mapping[str, type[Config]]) -> str:
    """Return the whole page."""
    order = sorted(classes, key=lambda name: (_rank(name), name))
    parts = [HEAD, *(_section(name, describe(classes[name])) for name in order)]
    elsewhere = [(name, "text", "", text) for name, text in READ_ELSEWHERE.items()]
    return "\n".join([*parts, _section("Other programs and tests", elsewhere)])


def _rank(name: str) -> int:
    return SERVICES.index(name) if name in SERVICES else len(SERVICES)


def _section(title: str, rows: Iterable[tuple[str, str, str, str]]) -> str:
    lines = [f"## {title}", "", "| variable | value | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {default} | {text} |" for name, kind, default, text in rows]
    return "\n".join(lines) + "\n"


def _kind(kind: Any, setting: Setting) -> str:
    return ", ".join(_kind_parts(kind, setting))


def _kind_parts(kind: Any, setting: Setting) -> Iterator[str]:
    arguments = typing.get_args(kind)
    is_optional = type(None) in arguments
    plain = next(part for part in arguments if part is not type(None)) if is_optional else kind
    if setting.choices:
        yield "one of " + ", ".join(f"`{choice}`" for choice in setting.choices)
    else:
        name = getattr(typing.get_origin(plain) or plain, "__name__", "")
        yield _NAMES[name] + (f" of {setting.unit}" if setting.unit else "")
    yield from _range(setting)
    if is_optional:
        yield "may be empty"
    if setting.secret:
        yield "secret"


_NAMES = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "`true` or `false`",
    "tuple": "list parted by commas",
}


def _range(setting: Setting) -> Iterator[str]:
    if setting.min is not None and setting.max is not None:
        yield f"{setting.min:g} to {setting.max:g}"
    elif setting.min is not None:
        yield f"at least {setting.min:g}"
    elif setting.max is not None:
        yield f"at most {setting.max:g}"


def _default(item: Field[Any]) -> str:
    if item.default is MISSING:
        return "required"
    if item.default in (None, "", ()):
        return "empty"
    if isinstance(item.default, bool):
        return f"`{str(item.default).lower()}`"
    if isinstance(item.default, tuple):
        return f"`{','.join(item.default)}`"
    return f"`{item.default}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="config_reference")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page is")
    asked = parser.parse_args(arguments)
    text = render(registered())
    if not asked.check:
        asked.page.parent.mkdir(parents=True, exist_ok=True)
        asked.page.write_text(text)
        return 0
    if asked.page.exists() and asked.page.read_text() == text:
        return 0
    print(
        f"{asked.page} is out of date: run python -m perdure_runtime.config_reference",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
