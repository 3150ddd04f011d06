"""`perdure job type`: make, show and list the types of jobs."""

from __future__ import annotations

from contextlib import aclosing

import click
from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1 import job_pb2

from perdure.cli.inputs import read_payload
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import (
    clock_time,
    duration,
    moment,
    print_json,
    print_json_list,
    print_table,
)
from perdure.client import Client
from perdure.times import duration as length


@click.group("type")
def job_type() -> None:
    """Types of jobs: who does the work, what the payload must be, when it is tried again."""


@job_type.command()
@click.argument("name")
@click.option("--handler", default="", help="The handler that does the work.")
@click.option("--http", metavar="JSON|@FILE", help="Or one HTTP call, as the node `http`.")
@click.option("--schema", metavar="JSON|@FILE", help="JSON Schema that payloads must fit.")
@click.option("--lane", default="", help="The kind of work that they queue as; io if left out.")
@click.option("--connection", default="", help="The account that they act under.")
@click.option("--timeout", type=float, help="Longest time of one try, seconds.")
@click.option("--retry-max", type=int, help="Most retries after the first try.")
@click.option("--retry-base", type=float, help="Wait before the first retry, seconds.")
@click.option("--retry-factor", type=float, help="What each wait is to the one before.")
@click.option("--retry-cap", type=float, help="Longest wait, seconds.")
@click.option("--subject", default="", help="Whom a job is about: an expression.")
@click.option("--purpose", default="", help="What the work is for, as suppression lists name it.")
@json_option
@calls_api
async def put(
    client: Client,
    name: str,
    handler: str,
    http: str | None,
    schema: str | None,
    lane: str,
    connection: str,
    timeout: float | None,
    retry_max: int | None,
    retry_base: float | None,
    retry_factor: float | None,
    retry_cap: float | None,
    subject: str,
    purpose: str,
    as_json: bool,
) -> None:
    """Make the job type NAME, or its next version if it says something else."""
    rule = job_pb2.JobRetry(
        max=retry_max, base=length(retry_base), factor=retry_factor, cap=length(retry_cap)
    )
    answer = await client.jobs.put_type(
        name,
        handler=handler,
        http=read_payload(http),
        payload_schema=read_payload(schema),
        lane=lane,
        connection=connection,
        retry=[rule] if rule.ListFields() else [],
        timeout=timeout,
        subject=subject,
        purpose=purpose,
    )
    if as_json:
        print_json(answer)
        return
    for warning in answer.warnings:
        click.echo(f"{warning.path}: {warning.reason}", err=True)
    made = "" if answer.created else " (as it was)"
    click.echo(f"{name} v{answer.job_type.version}{made}")


@job_type.command()
@click.argument("name")
@click.option("--version", type=int, default=0, help="The version; the latest if left out.")
@json_option
@calls_api
async def show(client: Client, name: str, version: int, as_json: bool) -> None:
    """Show the job type NAME."""
    shown = await client.jobs.get_type(name, version)
    if as_json:
        print_json(shown)
    else:
        click.echo("\n".join(_lines(shown)))


@job_type.command("list")
@json_option
@calls_api
async def list_(client: Client, as_json: bool) -> None:
    """List the latest version of every job type."""
    async with aclosing(client.jobs.list_types()) as listed:
        found = [each async for each in listed]
    if as_json:
        print_json_list(found)
        return
    rows = ((one.name, str(one.version), clock_time(moment(one.created_at))) for one in found)
    print_table(("type", "version", "made"), rows)


def _lines(shown: job_pb2.JobType) -> list[str]:
    spec = shown.spec
    facts = [
        ("handler", spec.handler),
        ("http", spec.http.decode(errors="replace")),
        ("lane", spec.lane or "io"),
        ("connection", spec.connection),
        ("timeout", _length(spec.timeout)),
        ("subject", spec.subject),
        ("purpose", spec.purpose),
        ("payload", spec.payload_schema.decode(errors="replace")),
    ]
    facts += [("retry", _rule(rule)) for rule in spec.retry]
    heading = f"{shown.name} v{shown.version}, made {clock_time(moment(shown.created_at))}"
    return [heading, *(f"  {name:<10}  {text}" for name, text in facts if text)]


def _rule(rule: job_pb2.JobRetry) -> str:
    parts = [
        f"on {', '.join(rule.on)}" if rule.on else "",
        f"{rule.max} times" if rule.HasField("max") else "",
        f"from {_length(rule.base)}" if rule.HasField("base") else "",
        f"times {rule.factor:g}" if rule.HasField("factor") else "",
        f"at most {_length(rule.cap)}" if rule.HasField("cap") else "",
    ]
    return ", ".join(filter(None, parts))


def _length(message: Duration) -> str:
    return duration(message.ToTimedelta()) if message.ListFields() else ""
