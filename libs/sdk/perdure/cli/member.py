"""`perdure member`: people of the org and their roles; put, list, remove."""

from __future__ import annotations

import click

from perdure.cli.keys import reason_option, roles_option
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, print_json, print_json_list, print_table
from perdure.client import Client


@click.group()
def member() -> None:
    """Members of the org: people, whose roles bound what their keys may do."""


@member.command()
@click.argument("name")
@roles_option
@json_option
@calls_api
async def put(client: Client, name: str, roles: tuple[str, ...], as_json: bool) -> None:
    """Make NAME a member, or change their roles."""
    made = await client.members.put(name, roles)
    if as_json:
        print_json(made)
    else:
        click.echo(f"{made.member}: {', '.join(made.roles)}")


@member.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List the members."""
    found = [one async for one in client.members.list()]
    if as_json:
        print_json_list(found)
    else:
        rows = [
            (one.member, ", ".join(one.roles), clock_time(moment(one.created_at))) for one in found
        ]
        print_table(("member", "roles", "since"), rows)


@member.command()
@click.argument("name")
@reason_option
@calls_api
async def remove(client: Client, name: str, reason: str) -> None:
    """Remove NAME and revoke their keys."""
    await client.members.remove(name, reason)
    click.echo("removed")
