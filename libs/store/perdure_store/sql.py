"""The named queries of `queries/*.sql`, read once at import.

A file holds queries of one topic. Each begins with its name and one sentence on what it is for:

    -- name: lock_runs
    -- Locks runs in id order, leaving out those that others hold.
    SELECT ...

Code asks for it by file and name, `sql("runs.lock_runs")`. The text that is sent begins with a
comment of that name, so that the server's log and `pg_stat_activity` say which query it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

_NAME_LINE = re.compile(r"-- name:\s*(?P<name>.*?)\s*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_COMMENT = "--"


@dataclass(frozen=True, slots=True)
class Query:
    """One named query: `name` is file stem dot name, `description` its sentence."""

    name: str
    description: str
    text: str


def load(folder: Traversable) -> Mapping[str, Query]:
    """Read every `.sql` file of `folder`.

    Raises ValueError, naming file and query, for a malformed or repeated name, a missing
    description, a query without text, a file without queries or text outside of a query.
    """
    queries: dict[str, Query] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        stem = file.name.removesuffix(".sql")
        found = list(_parse(stem, file.read_text(encoding="utf-8")))
        if not found:
            raise ValueError(f"{file.name}: there is no query; begin one with '-- name: some_name'")
        for query in found:
            if query.name in queries:
                raise ValueError(f"{file.name}: the query {query.name} stands twice")
            queries[query.name] = query
    return MappingProxyType(queries)


def _parse(stem: str, text: str) -> Iterator[Query]:
    heading, *blocks = _blocks(text.splitlines())
    if any(line.strip() and not line.startswith(_COMMENT) for line in heading):
        raise ValueError(f"{stem}.sql: text stands before the first '-- name:' line")
    for block in blocks:
        yield _query(stem, block)


def _blocks(lines: list[str]) -> list[list[str]]:
    """Part the lines before each name line; the first block is what precedes the first name."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if _NAME_LINE.fullmatch(line):
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _query(stem: str, block: list[str]) -> Query:
    matched = _NAME_LINE.fullmatch(block[0])
    name = matched["name"] if matched else ""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{stem}.sql: {name!r} is no query name; write it like lock_runs")
    description = block[1].removeprefix(_COMMENT).strip() if len(block) > 1 else ""
    if not description or not block[1].startswith(_COMMENT):
        raise ValueError(f"{stem}.sql: {name} lacks the line '-- what it is for' under its name")
    body = "\n".join(block[2:]).strip().removesuffix(";").rstrip()
    if not body:
        raise ValueError(f"{stem}.sql: {name} has no text")
    full_name = f"{stem}.{name}"
    return Query(full_name, description, f"-- {full_name}\n{body}")


def lookup(queries: Mapping[str, Query], name: str) -> str:
    """Return the text of a query; KeyError, with the nearest known name, when there is none."""
    try:
        return queries[name].text
    except KeyError:
        near = difflib.get_close_matches(name, queries, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise KeyError(f"there is no query {name}{hint}") from None


QUERIES: Mapping[str, Query] = load(files("perdure_store") / "queries")
"""Every query of this library, by `file.name`."""


def sql(name: str) -> str:
    """Return the text of the query `name`, such as `runs.lock_runs`; KeyError if unknown."""
    return lookup(QUERIES, name)
