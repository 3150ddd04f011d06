"""`perdure workflow`: publish, validate, list, show."""

from __future__ import annotations

from collections.abc import Iterable

import click
from perdure_contracts.v1 import workflow_pb2

from perdure.cli.failures import USER_ERROR
from perdure.cli.inputs import read_file
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, print_json, print_json_list, print_table
from perdure.client import Client


@click.group()
def workflow() -> None:
    """Definitions: check, publish, read."""


@workflow.command()
@click.argument("file")
@json_option
@calls_api
async def publish(client: Client, file: str, as_json: bool) -> None:
    """Publish FILE, YAML or JSON (- is stdin), as the next version of its name."""
    answer = await client.publish_workflow(read_file(file))
    if as_json:
        print_json(answer)
        return
    _print_problems(answer.warnings, "yellow")
    made = "published" if answer.created else "unchanged, still"
    click.echo(f"{made} {answer.workflow.name} version {answer.workflow.version}")


@workflow.command()
@click.argument("file")
@json_option
@calls_api
async def validate(client: Client, file: str, as_json: bool) -> None:
    """Check FILE as publishing would; exit with 1 if it would be refused."""
    answer = await client.validate_workflow(read_file(file))
    if as_json:
        print_json(answer)
    else:
        _print_problems(answer.warnings, "yellow")
        _print_problems(answer.problems, "red")
        click.echo(f"{file}: {len(answer.problems) or 'no'} problem(s)")
    if answer.problems:
        raise click.exceptions.Exit(USER_ERROR)


@workflow.command("list")
@click.argument("name", default="")
@json_option
@calls_api
async def list_(client: Client, name: str, as_json: bool) -> None:
    """List the latest version of every workflow, or all versions of NAME."""
    found = [each async for each in client.list_workflows(name)]
    if as_json:
        print_json_list(found)
        return
    rows = (
        (
            each.name,
            str(each.version),
            clock_time(moment(each.published_at)),
            each.digest.hex()[:12],
        )
        for each in found
    )
    print_table(("name", "version", "published", "digest"), rows)


@workflow.command()
@click.argument("name")
@click.option("--version", type=int, default=0, help="The version; the latest if left out.")
@json_option
@calls_api
async def show(client: Client, name: str, version: int, as_json: bool) -> None:
    """Print the document of a version as it was published."""
    found = await client.get_workflow(name, version)
    if as_json:
        print_json(found)
        return
    click.echo(found.document, nl=not found.document.endswith(b"\n"))


def _print_problems(problems: Iterable[workflow_pb2.DefinitionProblem], colour: str) -> None:
    for problem in problems:
        place = click.style(problem.path or "document", fg=colour)
        click.echo(f"{place}: {problem.reason}", err=True)
        if problem.hint:
            click.echo(f"    {problem.hint}", err=True)
