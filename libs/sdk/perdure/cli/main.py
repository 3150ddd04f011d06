"""`perdure`: its own commands, and those that other packages bring."""

from __future__ import annotations

import click

from perdure.cli.audit import audit
from perdure.cli.budget import budget
from perdure.cli.connection import connection
from perdure.cli.dead_letters import dlq
from perdure.cli.doctor import doctor
from perdure.cli.effects import effect
from perdure.cli.erase import erase
from perdure.cli.job import job
from perdure.cli.keys import keys
from perdure.cli.lane import lane
from perdure.cli.member import member
from perdure.cli.plugins import brought_command, brought_names, service_command
from perdure.cli.run import run
from perdure.cli.suppressions import suppression
from perdure.cli.workflow import workflow


class _Commands(click.Group):
    """A group whose commands partly come from other packages, loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *brought_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or brought_command(cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="perdure", prog_name="perdure")
def cli() -> None:
    """Perdure, a durable workflow engine.

    A command that calls the API shows the key in PERDURE_API_KEY, else that of the dev stack of
    this folder or one above.

    Exit status: 0 done, 1 refused or ended badly, 2 wrong usage, 3 nobody answered.
    """


for _command in (
    workflow, run, job, dlq, effect, connection, suppression, erase, budget, lane, doctor,
    keys, member, audit,
    service_command(),
):  # fmt: skip
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="perdure")
