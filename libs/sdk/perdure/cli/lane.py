"""`perdure lane`: kinds of work, and what each org gets of a queue that is too full for all."""

from __future__ import annotations

from datetime import timedelta

import click
from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1 import lane_service_pb2

from perdure.cli.options import calls_api, json_option
from perdure.cli.output import duration, print_json, print_json_list, print_table
from perdure.client import Client

HEADING = ("lane", "shards", "window", "hand-out", "lease", "poison after", "retries")

reason_option = click.option("--reason", default="", help="Why, for the audit log.")


@click.group()
def lane() -> None:
    """Lanes: kinds of work, each with its shards, window, leases, retries and poison limit."""


@lane.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List the lanes."""
    lanes = await client.lanes.list()
    if as_json:
        print_json_list(lanes)
    else:
        print_table(HEADING, map(_row, lanes))


@lane.command()
@click.argument("name")
@json_option
@calls_api
async def show(client: Client, name: str, as_json: bool) -> None:
    """Show the lane NAME."""
    _show(await client.lanes.get(name), as_json=as_json)


@lane.command()
@click.argument("name")
@click.option("--shards", type=int, help="Streams that each of its queues is spread over.")
@click.option("--window", "stream_ceiling", type=int, help="Most entries of one stream.")
@click.option("--hand-out", type=float, help="Lease until the first renewal, seconds.")
@click.option("--lease", type=float, help="Lease after a renewal, seconds.")
@click.option("--poison-limit", type=int, help="Losses after which a step fails as poison.")
@click.option("--retry-max", type=int, help="Retries where a definition says nothing.")
@click.option("--retry-base", type=float, help="Wait before the first retry, seconds.")
@click.option("--retry-factor", type=float, help="What each wait is to the one before.")
@click.option("--retry-cap", type=float, help="Longest wait, seconds.")
@reason_option
@json_option
@calls_api
async def put(
    client: Client, /, name: str, reason: str, as_json: bool, **given: float | None
) -> None:
    """Make the lane NAME, or change what is given of it; the rest stays."""
    request = lane_service_pb2.PutLaneRequest(lane=name, reason=reason)
    for field, value in given.items():
        if value is None:
            continue
        if isinstance(getattr(request, field), Duration):
            getattr(request, field).FromTimedelta(timedelta(seconds=value))
        else:
            setattr(request, field, value)
    answer = await client.lanes.put(request)
    _show(answer.lane, as_json=as_json)


@lane.command()
@click.argument("name")
@reason_option
@calls_api
async def delete(client: Client, name: str, reason: str) -> None:
    """Remove the lane NAME, which no published workflow may use."""
    await client.lanes.delete(name, reason)
    click.echo("deleted")


@lane.command()
@json_option
@calls_api
async def weights(client: Client, as_json: bool) -> None:
    """List how many steps each org may send in each of its turns."""
    found = await client.lanes.weights()
    if as_json:
        print_json_list(found)
    else:
        print_table(("org", "weight"), ((one.org, str(one.weight)) for one in found))


@lane.command()
@click.argument("org")
@click.argument("weight", type=int)
@reason_option
@calls_api
async def weigh(client: Client, org: str, weight: int, reason: str) -> None:
    """Let ORG send WEIGHT steps in each of its turns, 1 to 100."""
    await client.lanes.put_weight(org, weight, reason)
    click.echo(f"{org} weighs {weight}")


def _show(shown: lane_service_pb2.Lane, *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        print_table(HEADING, [_row(shown)])


def _row(shown: lane_service_pb2.Lane) -> tuple[str, ...]:
    base, cap = _length(shown.retry_base), _length(shown.retry_cap)
    return (
        shown.lane,
        str(shown.shards),
        str(shown.stream_ceiling),
        _length(shown.hand_out),
        _length(shown.lease),
        f"{shown.poison_limit} losses",
        f"{shown.retry_max} from {base}, times {shown.retry_factor:g}, at most {cap}",
    )


def _length(message: Duration) -> str:
    return duration(message.ToTimedelta())
