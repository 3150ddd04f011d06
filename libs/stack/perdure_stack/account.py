"""The account that a server runs as, and what that account can reach.

PostgreSQL refuses to run as root. A caller who is root lends its servers the account ``nobody``
and gives that account only directories made for it; nothing else on the machine is changed.
"""

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perdure_stack.errors import StackError

SERVER_ACCOUNT = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its primary group, by number."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Return the account that servers must switch to, or None when the caller is not root.

    Raises StackError when the caller is root and the machine has no such account.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(SERVER_ACCOUNT)
    except KeyError:
        raise StackError(
            f"this machine has no account {SERVER_ACCOUNT!r}, and PostgreSQL does not run as root",
            "the password database",
            "run as an ordinary user, or point PERDURE_DATABASE_URL at a server of your own",
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def can_enter(path: Path, account: Account | None) -> bool:
    """Tell whether ``account`` may pass through every directory down to ``path`` itself.

    None stands for the caller, who is taken at its word.
    """
    if account is None:
        return True
    resolved = path.resolve()
    return all(_may_search(place, account) for place in (resolved, *resolved.parents))


def _may_search(path: Path, account: Account) -> bool:
    status = path.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def open_temporary_root(account: Account | None) -> Path:
    """Return a temporary directory of the machine that ``account`` can enter.

    Raises StackError when there is none.
    """
    candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    for candidate in candidates:
        if candidate.is_dir() and can_enter(candidate, account):
            return candidate
    raise StackError(
        f"no temporary directory can be entered by the account {SERVER_ACCOUNT!r}",
        ", ".join(str(candidate) for candidate in candidates),
        "set TMPDIR to a directory that every user can enter, or run as an ordinary user",
    )
