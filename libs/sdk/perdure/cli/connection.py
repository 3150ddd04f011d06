"""`perdure connection`: accounts at outside providers that steps act under."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import BinaryIO

import click
from perdure_contracts.v1 import connection_service_pb2 as pb
from perdure_contracts.v1 import run_pb2

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import print_json, print_json_list, print_table
from perdure.client import Client

_SCHEMES: Mapping[str, pb.ConnectionScheme.ValueType] = {
    "none": pb.CONNECTION_SCHEME_NONE,
    "bearer": pb.CONNECTION_SCHEME_BEARER,
    "basic": pb.CONNECTION_SCHEME_BASIC,
    "header": pb.CONNECTION_SCHEME_HEADER,
    "fields": pb.CONNECTION_SCHEME_FIELDS,
}


@click.group()
def connection() -> None:
    """Connections: accounts at outside providers that steps act under."""


@connection.command()
@click.argument("name")
@click.option("--base-url", default="", help="What relative addresses are relative to.")
@click.option("--scheme", type=click.Choice(list(_SCHEMES)), default="none", show_default=True)
@click.option(
    "--credentials",
    type=click.File("rb"),
    help="A file with the credentials as a JSON object, - for standard input: `token` for bearer, "
    "`username` and `password` for basic, `name` and `value` for header.",
)
@click.option("--slots", type=click.IntRange(min=0), default=0, help="Steps at once; 0: any.")
@click.option("--rate", type=float, default=0.0, help="Steps a second; 0: any number.")
@click.option("--burst", type=float, default=0.0, help="Steps at once of the rate; 0: one.")
@click.option("--max-failures", type=int, default=0, help="In a row open the breaker; 0: 5.")
@click.option("--open-for", type=float, help="Seconds that it opens for at first.")
@click.option("--probe-path", default="", help="What a health probe asks for.")
@json_option
@calls_api
async def put(
    client: Client,
    name: str,
    base_url: str,
    scheme: str,
    credentials: BinaryIO | None,
    slots: int,
    rate: float,
    burst: float,
    max_failures: int,
    open_for: float | None,
    probe_path: str,
    as_json: bool,
) -> None:
    """Make the connection NAME, or replace its settings; without --credentials it keeps its own."""
    request = pb.PutConnectionRequest(
        name=name,
        base_url=base_url,
        scheme=_SCHEMES[scheme],
        slots=slots,
        rate=rate,
        burst=burst,
        max_failures=max_failures,
        probe_path=probe_path,
    )
    if credentials is not None:
        request.credentials.update(_fields(credentials.read()))
    if open_for is not None:
        request.open_for.FromMilliseconds(int(open_for * 1000))
    answer = await client.connections.put(request)
    if as_json:
        print_json(answer)
    else:
        click.echo("made" if answer.created else "changed")


@connection.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List the connections by name."""
    async with aclosing(client.connections.list()) as listed:
        found = [each async for each in listed]
    if as_json:
        print_json_list(found)
        return
    heading = ("name", "health", "in use", "slots", "rate", "blocked", "parked", "address")
    print_table(heading, map(_row, found))


@connection.command()
@click.argument("name")
@json_option
@calls_api
async def show(client: Client, name: str, as_json: bool) -> None:
    """Show the connection NAME; its credentials are shown to nobody."""
    _print(await client.connections.get(name), as_json)


@connection.command()
@click.argument("name")
@calls_api
async def delete(client: Client, name: str) -> None:
    """Remove the connection NAME; steps that need it are parked until there is one."""
    await client.connections.delete(name)
    click.echo("deleted")


@connection.command()
@click.argument("name")
@json_option
@calls_api
async def disable(client: Client, name: str, as_json: bool) -> None:
    """Let no step use the connection NAME; `repair` enables it."""
    _print(await client.connections.disable(name), as_json)


@connection.command()
@click.argument("name")
@json_option
@calls_api
async def repair(client: Client, name: str, as_json: bool) -> None:
    """Say that the connection NAME works again; what is parked on it comes back."""
    _print(await client.connections.repair(name), as_json)


@connection.command()
@click.argument("name")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@calls_api
async def probe(client: Client, name: str, timeout: float) -> None:
    """Try the connection NAME with a call of its own, and say how that went."""
    run_id = await client.connections.probe(name)
    try:
        run = await client.wait_run(run_id, timeout)
    except TimeoutError:
        click.echo(f"not answered yet; see: perdure run show {run_id}")
        raise SystemExit(1) from None
    if run.status == run_pb2.RUN_STATUS_COMPLETED:
        click.echo("works")
        return
    click.echo(f"does not work: {run.error.code} {run.error.message}")
    raise SystemExit(1)


def health_of(each: pb.Connection) -> str:
    """Return the health as a word."""
    return pb.ConnectionHealth.Name(each.health).removeprefix("CONNECTION_HEALTH_").lower()


def _fields(text: bytes) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    is_flat = isinstance(fields, dict) and all(isinstance(one, str) for one in fields.values())
    if not is_flat:
        raise click.BadParameter("is not a JSON object of texts", param_hint="--credentials")
    return dict(fields)


def _print(each: pb.Connection, as_json: bool) -> None:
    if as_json:
        print_json(each)
        return
    lines = {
        "health": health_of(each),
        "address": each.base_url or "-",
        "scheme": pb.ConnectionScheme.Name(each.scheme).removeprefix("CONNECTION_SCHEME_").lower(),
        "credentials": f"generation {each.generation}" if each.has_credentials else "none",
        "in use": f"{each.in_use} of {each.slots}" if each.slots else "any number",
        "rate": f"{each.rate:g} a second, {each.burst:g} at once" if each.rate else "any",
        "failures": f"{each.failures} in a row; {each.max_failures} open the breaker",
        "blocked": str(each.blocked),
        "parked": str(each.parked),
    }
    if each.HasField("opens_in"):
        lines["tried again"] = f"in {each.opens_in.ToMilliseconds() / 1000:.0f} s"
    print_table((each.name, ""), lines.items())


def _row(each: pb.Connection) -> tuple[str, ...]:
    return (
        each.name,
        health_of(each),
        str(each.in_use) if each.slots else "-",
        str(each.slots) if each.slots else "any",
        f"{each.rate:g}/s" if each.rate else "any",
        str(each.blocked),
        str(each.parked),
        each.base_url or "-",
    )
