"""The migration files: found, read, checked; nothing is run here.

`NNNN_pre_what.sql` changes what both the old and the new release bear, before the new one starts;
`NNNN_post_what.sql` takes away what only the old one needed, after it is gone. A file whose first
line is `-- no transaction` runs statement by statement, and must bear being run again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path

from perdure_runtime.errors import FailedPrecondition, Reason

NO_TRANSACTION = "-- no transaction"

_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<phase>pre|post)_[a-z0-9]+(_[a-z0-9]+)*\.sql")
_NOT_MIGRATIONS = {"schema.sql"}
_STATEMENT_PART = re.compile(
    r"""
      (?P<comment>--[^\n]*)
    | (?P<text>'(?:[^']|'')*' | "(?:[^"]|"")*" | (\$\w*\$).*?\3 | [^;'"$-]+ | [-$])
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


class Phase(StrEnum):
    """Which part of a deploy: before the new release starts, after the old one is gone, or both."""

    PRE = "pre"
    POST = "post"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file; `sha256` is the hex digest of its bytes."""

    version: int
    phase: Phase
    name: str
    text: str
    sha256: str

    @property
    def in_transaction(self) -> bool:
        """Whether the file runs in one transaction."""
        return self.text.partition("\n")[0].strip() != NO_TRANSACTION


def bad_migrations(what: str, where: str, do_this: str) -> FailedPrecondition:
    """Build the error of this library's tools: what is wrong, where, and what to do about it."""
    return FailedPrecondition(
        f"what: {what}\nwhere: {where}\ndo this: {do_this}", reason=Reason.SCHEMA_MISMATCH
    )


def bundled_migrations() -> Traversable:
    """Return the folder of the migrations: in the installed package, else in the repository."""
    installed = files("perdure_store") / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "migrations"


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    """Return the migrations of `folder` in their order.

    Raises FailedPrecondition, SCHEMA_MISMATCH, for a missing folder, a malformed name or a number
    that stands twice.
    """
    if not folder.is_dir():
        raise bad_migrations(
            "there is no such folder of migrations",
            str(folder),
            "give the folder that holds 0001_pre_*.sql with --dir",
        )
    names = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name.endswith(".sql") and entry.name not in _NOT_MIGRATIONS
    )
    migrations = tuple(_read(folder, name) for name in names)
    for first, second in pairwise(migrations):
        if first.version == second.version:
            raise bad_migrations(
                f"two migrations have the number {first.version:04}",
                f"{first.name}, {second.name}",
                "give the newer one the next free number",
            )
    return migrations


def _read(folder: Traversable, name: str) -> Migration:
    matched = _FILE_NAME.fullmatch(name)
    if matched is None:
        raise bad_migrations(
            "the name of a migration is malformed",
            name,
            "name it like 0006_pre_add_signals.sql or 0007_post_drop_old_column.sql",
        )
    content = (folder / name).read_bytes()
    return Migration(
        version=int(matched["version"]),
        phase=Phase(matched["phase"]),
        name=name,
        text=content.decode("utf-8"),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def select(pending: Sequence[Migration], phase: Phase) -> tuple[Migration, ...]:
    """Return what a phase of a deploy runs, in order.

    `pre` goes up to the last `pre` file: a `post` file before that one belongs to an earlier
    release, whose deploy is over. Raises FailedPrecondition when `post` comes before `pre`.
    """
    last_pre = max((i for i, m in enumerate(pending) if m.phase is Phase.PRE), default=-1)
    if phase is Phase.PRE:
        return tuple(pending[: last_pre + 1])
    if phase is Phase.POST and last_pre >= 0:
        raise bad_migrations(
            "the post-deploy phase was asked for before the pre-deploy phase was done",
            pending[last_pre].name,
            "run the migrations with --phase pre first, then start the new release",
        )
    return tuple(pending)


def statements(text: str) -> list[str]:
    """Part a file into its statements, without comments that stand between words."""
    found = [""]
    for part in _STATEMENT_PART.finditer(text):
        if part["end"]:
            found.append("")
        elif part["text"]:
            found[-1] += part["text"]
    return [statement.strip() for statement in found if statement.strip()]
