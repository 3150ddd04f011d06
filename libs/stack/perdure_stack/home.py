"""Where an embedded server keeps its files.

A server's directory is the caller's. Its *home* holds what the server itself must reach (data and
socket), and is that directory unless the server's account cannot enter it: then it is a directory
of the machine's temporary place, recorded in the server's directory so that the next start finds
the same data.
"""

import os
import tempfile
from pathlib import Path

from perdure_stack.account import Account, can_enter, open_temporary_root
from perdure_stack.errors import StackError

MOVED_TO = "moved-to"


def find_home(directory: Path, account: Account | None) -> Path:
    """Return the home of the server that keeps its files in ``directory``, made if missing.

    Raises StackError when the directory is not the caller's to write.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StackError(
            "the directory for a server's files belongs to another user",
            str(directory),
            "start as the user who made it, or choose another directory",
        )
    if can_enter(directory, account):
        return directory.resolve()
    record = directory / MOVED_TO
    if record.exists():
        recorded = Path(record.read_text(encoding="utf-8").strip())
        if recorded.is_dir() and recorded.stat().st_uid == os.geteuid():
            return recorded
    return _move_home(record, account)


def _move_home(record: Path, account: Account | None) -> Path:
    root = open_temporary_root(account)
    home = Path(tempfile.mkdtemp(prefix="perdure-", dir=root))
    home.chmod(0o755)
    record.write_text(f"{home}\n", encoding="utf-8")
    return home


def own_directory(path: Path, account: Account | None) -> Path:
    """Make ``path`` a private directory of the server's account and return it."""
    path.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(path, account.uid, account.gid)
    return path
