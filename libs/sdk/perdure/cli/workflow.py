"""`perdure workflow`: publish, validate, list, show, graph, migrate.

A definition is given as FILE: a file of YAML or JSON, `-` for stdin, or `module:name` for a
`perdure.workflow.Workflow`.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from perdure_contracts.v1 import workflow_pb2, workflow_service_pb2

from perdure.cli.failures import USER_ERROR, Failure
from perdure.cli.inputs import read_document
from perdure.cli.migrations import migrate, migration
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import clock_time, moment, print_json, print_json_list, print_table
from perdure.cli.plugins import Problem, has_local_check, local_check
from perdure.client import Client
from perdure.errors import NOT_REACHED, PerdureUnavailable
from perdure.graph import graph_of, mermaid, svg


@click.group()
def workflow() -> None:
    """Definitions: check, publish, read, draw; move runs between versions."""


workflow.add_command(migrate)
workflow.add_command(migration)


@workflow.command()
@click.argument("file")
@json_option
@calls_api
async def publish(client: Client, file: str, as_json: bool) -> None:
    """Publish FILE as the next version of its name.

    FILE is YAML or JSON (- is stdin), or module:name of a workflow made in Python.
    """
    answer = await client.publish_workflow(read_document(file))
    if as_json:
        print_json(answer)
        return
    _print_problems(answer.warnings, "yellow")
    made = "published" if answer.created else "unchanged, still"
    click.echo(f"{made} {answer.workflow.name} version {answer.workflow.version}")


@workflow.command()
@click.argument("file")
@click.option("--local", is_flag=True, help="Check here, and ask no Perdure.")
@json_option
@calls_api
async def validate(client: Client, file: str, local: bool, as_json: bool) -> None:
    """Check FILE as publishing would; exit with 1 if it would be refused.

    Where no Perdure answers, and with --local, FILE is checked here, by perdure-machine; only the
    lanes that every Perdure has are known then.
    """
    answer = await _checked(client, read_document(file), local)
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


_PICTURES = {"mermaid": mermaid, "svg": svg}


@workflow.command()
@click.argument("file")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(_PICTURES)),
    default="mermaid",
    show_default=True,
    help="Mermaid text, or an SVG that needs nothing else.",
)
def graph(file: str, form: str) -> None:
    """Draw FILE; of a published workflow: perdure workflow show NAME | perdure workflow graph -.

    What a failure leads to is dashed; what stands in a node is drawn in its box.
    """
    try:
        drawn = graph_of(read_document(file))
    except ValueError as error:
        raise Failure(str(error), where=file, do_this="see what `validate` says of it") from error
    click.echo(_PICTURES[form](drawn), nl=False)


async def _checked(
    client: Client, document: bytes, local: bool
) -> workflow_service_pb2.ValidateWorkflowResponse:
    if local:
        return _checked_here(document)
    try:
        return await client.validate_workflow(document)
    except PerdureUnavailable as error:
        if error.reason != NOT_REACHED or not has_local_check():
            raise
        click.echo(f"no Perdure answers at {client.address}; checked here", err=True)
        return _checked_here(document)


def _checked_here(document: bytes) -> workflow_service_pb2.ValidateWorkflowResponse:
    problems, warnings = local_check()(document)
    return workflow_service_pb2.ValidateWorkflowResponse(
        problems=map(_problem, problems), warnings=map(_problem, warnings)
    )


def _problem(found: Problem) -> workflow_pb2.DefinitionProblem:
    return workflow_pb2.DefinitionProblem(path=found.path, reason=found.reason, hint=found.hint)


def _print_problems(problems: Iterable[workflow_pb2.DefinitionProblem], colour: str) -> None:
    for problem in problems:
        place = click.style(problem.path or "document", fg=colour)
        click.echo(f"{place}: {problem.reason}", err=True)
        if problem.hint:
            click.echo(f"    {problem.hint}", err=True)
