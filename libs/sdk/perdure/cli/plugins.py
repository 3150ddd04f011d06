"""Commands that other packages bring, so that the SDK depends on none of them.

An entry point of the group `perdure.commands`, by command, is a `main(arguments) -> exit status`;
one called `keys.bootstrap` is a command of the group `perdure keys`. One of `perdure.services`, by
service, is a `main() -> exit status`. `definition`, of the group `perdure.checks`, is a
`check(document) -> problems, warnings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any, Protocol

import click

from perdure.cli.failures import Failure

COMMANDS = "perdure.commands"
SERVICES = "perdure.services"
CHECKS = "perdure.checks"

PART = "."
"""Stands in the name of an entry point between a group of the CLI's own and the command in it."""

_HOMES = {
    "dev": ("perdure-stack", "Run a whole Perdure on this machine until Ctrl-C."),
    "epoch": (
        "perdure-store",
        "Say that the database was restored, and whether it has forgotten anything.",
    ),
    "migrate": ("perdure-store", "Bring the database to the newest schema."),
}
"""The commands that belong here whoever brings them: their package, and what they do."""

_SERVICES = ("coordinator", "ingest", "relay", "sweeper", "timer", "worker")
"""Perdure's own; of a name that is none of these nobody is told to install a package."""


class Problem(Protocol):
    """What a check found at one place of a definition."""

    path: str
    reason: str
    hint: str


_PASS_ALL = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def brought_names() -> list[str]:
    """Return the names of the commands that other packages bring, or should."""
    names = (entry.name for entry in entry_points(group=COMMANDS))
    return sorted({*_HOMES, *(name for name in names if PART not in name)})


def brought_command(name: str) -> click.Command | None:
    """Return a command that another package brings; None if nobody should."""
    if name not in brought_names():
        return None
    package, text = _HOMES.get(name, ("", ""))
    return _forwarding(name, text, lambda: _load(COMMANDS, name, package or name))


def brought_part(group: str, name: str, text: str, package: str) -> click.Command:
    """Return a command that `package` brings to a group that is the CLI's own."""
    return _forwarding(name, text, lambda: _load(COMMANDS, f"{group}{PART}{name}", package))


def service_command() -> click.Command:
    """Return `perdure serve SERVICE`."""
    names = sorted({*_SERVICES, *(entry.name for entry in entry_points(group=SERVICES))})

    @click.command("serve")
    @click.argument("service", type=click.Choice(names))
    def serve(service: str) -> None:
        """Run one service in this process; it reads its settings from PERDURE_*."""
        main = _load(SERVICES, service, f"perdure-{service}")
        raise click.exceptions.Exit(main() or 0)

    return serve


def has_local_check() -> bool:
    """Tell whether definitions can be checked in this process."""
    return bool(entry_points(group=CHECKS, name="definition"))


def local_check() -> Callable[[bytes], tuple[Iterable[Problem], Iterable[Problem]]]:
    """Return what checks a definition in this process. Raises Failure if it is not installed."""
    check: Callable[[bytes], tuple[Iterable[Problem], Iterable[Problem]]]
    check = _load(CHECKS, "definition", "perdure-machine")
    return check


def _forwarding(name: str, text: str, load: Callable[[], Any]) -> click.Command:
    @click.command(name, help=text, context_settings=_PASS_ALL, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def forward(arguments: tuple[str, ...]) -> None:
        raise click.exceptions.Exit(load()(arguments) or 0)

    return forward


def _load(group: str, name: str, package: str) -> Any:
    found = entry_points(group=group, name=name)
    if not found:
        raise Failure(
            f"`{name}` is not installed here",
            where=f"the package {package}",
            do_this=f"install it beside this one: pip install {package}",
        )
    return next(iter(found)).load()
