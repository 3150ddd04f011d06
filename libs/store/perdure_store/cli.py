"""The commands of `python -m perdure_store`."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

from perdure_runtime import fail_points
from perdure_runtime.errors import PerdureError

from perdure_store.cli_keys import add_key_options, bootstrap
from perdure_store.epochs import EpochNow, begin_next, declare_lossless, read_epoch, trust_failovers
from perdure_store.migrate import Status, migrate, read_status
from perdure_store.migration_files import Migration, Phase, bundled_migrations, read_migrations
from perdure_store.pool import Connection, open_connection
from perdure_store.schema_text import schema_text

URL_VARIABLES = ("PERDURE_DATABASE_DIRECT_URL", "PERDURE_DATABASE_URL")
APPLICATION_NAME = "perdure-migrate"


_TRUST = {"trust": True, "distrust": False}
"""What the commands say of failovers to come: whether they lose nothing."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit status: 0, 1 for an error, 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    fail_points.arm_from(os.environ)
    if not options.database_url:
        _say(
            "what: no database was named\n"
            f"where: {' and '.join(URL_VARIABLES)}\n"
            "do this: set one of them, or give --database-url postgresql://user@host:port/database"
        )
        return 2
    try:
        asyncio.run(_run(options))
    except PerdureError as error:
        _say(error.message)
        return 1
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perdure_store", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("migrate", help="run the migrations that the database lacks")
    run.add_argument("--phase", type=Phase, choices=list(Phase), default=Phase.ALL)
    status = commands.add_parser("status", help="list applied and pending migrations")
    schema = commands.add_parser("schema", help="write the schema of a migrated database as SQL")
    schema.add_argument("--output", type=Path, help="file to write; standard output without it")
    epoch = commands.add_parser("epoch", help="say what the database may have forgotten")
    epoch.add_argument("action", choices=("show", "raise", "lossless", *_TRUST))
    epoch.add_argument("--reason", default="", help="why, for the audit log")
    epoch.add_argument("--actor", default=None, help="who says so; the user by default")
    keys = commands.add_parser("keys", help="make the first key of an org")
    add_key_options(keys)
    for command in (run, status, schema, epoch, keys):
        command.add_argument("--database-url", default=_url_of_environment(), metavar="URL")
    for command in (run, status):
        command.add_argument("--dir", type=Path, default=None, help="folder of the migrations")
    return parser


def _url_of_environment() -> str | None:
    return next(filter(None, map(os.environ.get, URL_VARIABLES)), None)


async def _run(options: argparse.Namespace) -> None:
    connection = await open_connection(
        options.database_url, application_name=APPLICATION_NAME, command_timeout=None
    )
    try:
        match options.command:
            case "migrate":
                for done in await migrate(connection, _migrations(options), options.phase):
                    print(f"applied {done.name}")
            case "status":
                _print_status(await read_status(connection, _migrations(options)))
            case "schema":
                _write(await schema_text(connection), options.output)
            case "epoch":
                _print_epoch(await _change_epoch(connection, options))
            case "keys":
                await bootstrap(connection, options)
    finally:
        await connection.close()


async def _change_epoch(connection: Connection, options: argparse.Namespace) -> EpochNow:
    actor = options.actor or getpass.getuser()
    match options.action:
        case "raise":
            return await begin_next(connection, actor=actor, reason=options.reason)
        case "lossless":
            return await declare_lossless(connection, actor=actor, reason=options.reason)
        case "trust" | "distrust" as said:
            return await trust_failovers(
                connection, lossless=_TRUST[said], actor=actor, reason=options.reason
            )
        case _:
            return await read_epoch(connection)


def _print_epoch(epoch: EpochNow) -> None:
    begun = f", begun {epoch.begun_at:%Y-%m-%d %H:%M:%S} UTC" if epoch.begun_at else ""
    print(f"epoch {epoch.number}{begun}")
    if epoch.lossless:
        print("failovers lose nothing, the operator says; a restore needs `perdure epoch raise`")
    if epoch.is_open:
        print("calls that no key protects may begin")
    else:
        print(
            "calls that no key protects wait: this database may have forgotten some\n"
            "do this: `perdure epoch lossless` if nothing was lost, else `perdure epoch raise`"
        )


def _migrations(options: argparse.Namespace) -> tuple[Migration, ...]:
    folder: Traversable = options.dir or bundled_migrations()
    return read_migrations(folder)


def _print_status(status: Status) -> None:
    for row in status.applied:
        print(f"applied  {row.name}  {row.applied_at:%Y-%m-%d %H:%M:%S} UTC")
    for migration in status.pending:
        print(f"pending  {migration.name}")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
