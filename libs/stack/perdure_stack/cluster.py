"""The files of a PostgreSQL cluster: making one, refusing a wrong one, clearing after a crash."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from perdure_stack.account import Account
from perdure_stack.errors import StackError
from perdure_stack.home import own_directory
from perdure_stack.process import ChildProcess
from perdure_stack.readiness import run_to_success

SUPERUSER = "postgres"
INITDB_TIMEOUT = 120.0  # seconds
PID_FILE = "postmaster.pid"
PORT_LINE = 3  # of the pid file, counted from 0


async def initialise(
    programs: Path, home: Path, account: Account | None, log: Path, *, durable: bool
) -> None:
    """Make a new cluster in ``home/data``; one that was interrupted is never taken for whole.

    Raises StackError when initdb fails.
    """
    draft = home / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    own_directory(draft, account)
    child = ChildProcess(
        _initdb_command(programs, draft, durable=durable),
        log=log,
        environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        directory=home,
        account=account,
    )
    await run_to_success("initdb", child, INITDB_TIMEOUT)
    draft.rename(home / "data")


def _initdb_command(programs: Path, data: Path, *, durable: bool) -> list[str]:
    command = [str(programs / "initdb"), "--pgdata", str(data), "--username", SUPERUSER]
    # The wheel has no ICU; the builtin provider sorts the same on every machine.
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin"]
    command += ["--builtin-locale=C.UTF-8", "--auth=trust", "--no-instructions"]
    return command if durable else [*command, "--no-sync"]


def write_settings(home: Path, settings: Mapping[str, str]) -> Path:
    """Write ``settings`` as the whole configuration of the home's cluster; return the file.

    It stands beside the data: inside, whoever rules the server could make it a link and so let
    root write to any file.
    """
    quoted = ((name, value.replace("'", "''")) for name, value in settings.items())
    text = "".join(f"{name} = '{value}'\n" for name, value in quoted)
    file = home / "postgresql.conf"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    return file


def refuse_foreign(data: Path, account: Account | None) -> None:
    """Raise StackError if the cluster's files belong to another user than the server's."""
    expected = os.geteuid() if account is None else account.uid
    if data.stat().st_uid != expected:
        raise StackError(
            "the data directory belongs to another user",
            str(data),
            "start it as the user who made it, or remove the directory to begin anew",
        )


def refuse_other_major(data: Path, major: str) -> None:
    """Raise StackError if the cluster was made by another major version of PostgreSQL."""
    record = data / "PG_VERSION"
    made_by = (
        record.read_text(encoding="utf-8").strip() if record.exists() else "an unknown version"
    )
    if made_by != major:
        raise StackError(
            f"the data directory was made by PostgreSQL {made_by}, this is PostgreSQL {major}",
            str(data),
            "remove the directory to begin anew, or set PERDURE_DATABASE_URL to a server of that "
            "version",
        )


def recorded_port(data: Path) -> int | None:
    """Return the port in the pid file that a server left or holds, or None without one."""
    record = data / PID_FILE
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    port = lines[PORT_LINE].strip() if len(lines) > PORT_LINE else ""
    return int(port) if port.isdecimal() else None


def remove_stale_pid(data: Path) -> None:
    """Remove the pid file of a server that is gone.

    PostgreSQL itself refuses to start when the number in that file is some process's today.
    """
    (data / PID_FILE).unlink(missing_ok=True)
