"""`perdure doctor`: what has stopped without an error."""

from __future__ import annotations

from collections.abc import Iterator

import click
from perdure_contracts.v1 import system_service_pb2

from perdure.cli.failures import USER_ERROR
from perdure.cli.options import calls_api, json_option
from perdure.cli.output import print_json
from perdure.client import Client


@click.command()
@click.option("--max-findings", type=click.IntRange(1, 1000), default=20, show_default=True)
@json_option
@calls_api
async def doctor(client: Client, max_findings: int, as_json: bool) -> None:
    """Look for what has stopped without an error; exit with 1 if anything was found."""
    answer = await client.diagnose(max_findings)
    if as_json:
        print_json(answer)
    else:
        for check in answer.checks:
            click.echo("\n".join(_lines(check)))
    if not all(check.ok for check in answer.checks):
        raise click.exceptions.Exit(USER_ERROR)


def _lines(check: system_service_pb2.Check) -> Iterator[str]:
    mark = click.style("ok", fg="green") if check.ok else click.style("!!", fg="red")
    yield f"{mark}  {check.name.replace('_', ' ')}: {check.summary}"
    for finding in check.findings:
        step = f" step {finding.step}" if finding.step else ""
        place = f"run {finding.run_id}{step}: " if finding.run_id else ""
        yield f"      what:    {place}{finding.what}"
        yield f"      do this: {finding.do_this}"
