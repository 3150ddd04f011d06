"""`perdure keys`: API keys; bootstrap, create, list, rotate, revoke."""

from __future__ import annotations

from datetime import timedelta

import click
from google.protobuf.timestamp_pb2 import Timestamp
from perdure_contracts.v1.key_service_pb2 import ApiKey

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, print_json, print_json_list, print_table
from perdure.cli.plugins import brought_part
from perdure.client import Client

HEADING = ("key", "id", "member", "may", "expires", "last used", "state")

ROLES = ("viewer", "operator", "approver", "admin", "worker")

roles_option = click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="Repeatable."
)
reason_option = click.option("--reason", default="", help="Why, for the audit log.")


@click.group()
def keys() -> None:
    """API keys: what programs and people present at the doors."""


keys.add_command(
    brought_part(
        "keys",
        "bootstrap",
        "Make the first key of an org straight in the database that PERDURE_DATABASE_URL names.",
        "perdure-store",
    )
)


@keys.command()
@click.argument("name")
@roles_option
@click.option("--scope", "scopes", multiple=True, help="Only this permission; repeatable.")
@click.option("--member", default="", help="Whose key it is; it may do no more than they may.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How long it lasts.")
@click.option("--rate", type=float, default=0.0, help="Calls a second that it may make of a door.")
@click.option("--burst", type=int, default=0, help="Calls at once beyond the rate.")
@json_option
@calls_api
async def create(
    client: Client,
    name: str,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    member: str,
    days: float | None,
    rate: float,
    burst: int,
    as_json: bool,
) -> None:
    """Make the key NAME and print its secret, which is told this once."""
    lasts = None if days is None else timedelta(days=days)
    made = await client.keys.create(
        name, roles, scopes=scopes, member=member, lasts=lasts, rate=rate, burst=burst
    )
    if as_json:
        print_json(made)
    else:
        _tell(made.secret)


@keys.command("list")
@click.option("--revoked", is_flag=True, help="Those that were revoked too.")
@json_option
@calls_api
async def list_(client: Client, revoked: bool, as_json: bool) -> None:
    """List the keys."""
    found = [key async for key in client.keys.list(with_revoked=revoked)]
    if as_json:
        print_json_list(found)
    else:
        print_table(HEADING, map(_row, found))


@keys.command()
@click.argument("name")
@click.option("--overlap-hours", type=click.FloatRange(min=0), default=24.0, show_default=True)
@json_option
@calls_api
async def rotate(client: Client, name: str, overlap_hours: float, as_json: bool) -> None:
    """Give the key NAME another secret; what it had goes on for a time."""
    made = await client.keys.rotate(name, timedelta(hours=overlap_hours))
    if as_json:
        print_json(made)
    else:
        _tell(made.secret)


@keys.command()
@click.argument("name")
@reason_option
@calls_api
async def revoke(client: Client, name: str, reason: str) -> None:
    """End the key NAME; every door refuses it within seconds."""
    await client.keys.revoke(name, reason)
    click.echo("revoked")


def _tell(secret: str) -> None:
    click.echo(secret)
    click.echo("This secret is told once.", err=True)


def _row(key: ApiKey) -> tuple[str, ...]:
    may = ", ".join(key.roles)
    if key.scopes:
        may = f"{may}: {', '.join(key.scopes)}"
    return (
        key.name,
        key.key_id,
        key.member or "-",
        may,
        _when(key.expires_at, key.HasField("expires_at"), "never"),
        _when(key.last_used_at, key.HasField("last_used_at"), "never"),
        _state(key),
    )


def _state(key: ApiKey) -> str:
    if key.HasField("revoked_at"):
        return f"revoked by {key.revoked_by}"
    return "two secrets" if key.secrets > 1 else "good" if key.secrets else "expired"


def _when(instant: Timestamp, given: bool, otherwise: str) -> str:
    return clock_time(moment(instant)) if given else otherwise
